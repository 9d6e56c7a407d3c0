// Work for an interpreter of JavaScript: objects with prototypes, closures, maps, strings, regular expressions,
// generators, arrays that are sorted by a function, numbers of both kinds.
"use strict";

let seed = 12345;
function random(below) {
    seed = (Math.imul(seed, 1103515245) + 12345) & 0x7fffffff;
    return seed % below;
}

class Shape {
    constructor(width) { this.width = width; }
    area() { return 0; }
}
class Square extends Shape {
    area() { return this.width * this.width; }
}
class Circle extends Shape {
    area() { return Math.floor(this.width * this.width * 355 / 113); }
}

function shapes(count) {
    let sum = 0;
    for (let i = 0; i < count; i++) {
        const shape = i % 3 ? new Square(random(50)) : new Circle(random(50));
        sum = (sum + shape.area()) % 1000003;
    }
    return sum;
}

function words(count) {
    const found = new Map();
    for (let i = 0; i < count; i++) {
        const word = "w" + random(97).toString(36) + (i % 7);
        found.set(word, (found.get(word) ?? 0) + 1);
    }
    const text = [...found].sort(([a, n], [b, m]) => m - n || (a < b ? -1 : 1)).map(([word, n]) => `${word}=${n};`).join("");
    return (text.match(/w[a-z]\d=(\d+);/g) ?? []).length + text.replace(/\d+/g, n => n.length).length;
}

function* tree(depth) {
    if (depth > 0) {
        yield* tree(depth - 1);
        yield depth;
        yield* tree(depth - 1);
    }
}

function fib(n) { return n < 2 ? n : fib(n - 1) + fib(n - 2); }

let sum = 0;
for (let round = 0; round < 8; round++) {
    sum = (sum * 31 + shapes(3000) + words(1200)) % 1000003;
    for (const leaf of tree(8)) sum = (sum * 7 + leaf) % 1000003;
    sum = (sum + fib(16) + JSON.stringify(JSON.parse(`{"a":[${round},2,{"b":"${sum}"}]}`)).length) % 1000003;
}
sum;
