// SPDX-License-Identifier: MIT OR Apache-2.0
// Call paths as trees ----------------------------------------------------------------------------------------------------
//
// All views are trees of one shape, in columns: `member`, `level` (rows from the top of the picture, or from the chosen
// function), `parent`, `end` (the first path that does not continue this one), `start` and `width` in instructions, and
// `taken` samples. `self` has a frame's instructions with the functions inlined into it, as the table of functions does.
// `interrupted`, if it is known, has those of interrupts during the frame, which the table counts for no function.

const members = data.members;
const memberNames = members.name.map((name) => string(name));

/** Makes a tree from columns in depth-first order; the parent of the outermost paths is -1. */
function treeOf({ depth, member, own, samples }) {
    const count = depth.length;
    const parent = new Int32Array(count);
    const end = new Int32Array(count).fill(count);
    const open = [];
    for (let path = 0; path < count; path++) {
        while (open.length > depth[path]) end[open.pop()] = path;
        parent[path] = open.length ? open[open.length - 1] : -1;
        open.push(path);
    }
    const width = Float64Array.from(own);
    const taken = Float64Array.from(samples);
    const self = Float64Array.from(own);
    const interrupted = new Float64Array(count);
    for (let path = count - 1; path >= 0; path--) {
        const outer = parent[path];
        if (outer < 0) continue;
        interrupted[outer] += members.kind[member[path]] === IRQ ? width[path] : interrupted[path];
        width[outer] += width[path];
        taken[outer] += taken[path];
        if (members.kind[member[path]] === INLINED) self[outer] += self[path];
    }
    const start = new Float64Array(count);
    const next = new Float64Array(count + 1);
    for (let path = 0; path < count; path++) {
        const outer = parent[path] + 1;
        start[path] = next[outer];
        next[outer] += width[path];
        // What a frame executes itself comes first, as in flamegraph.svg.
        next[path + 1] = start[path] + own[path];
    }
    const level = Int32Array.from(depth, (deep) => deep + 1);
    return { count, member, level, parent, end, start, width, taken, own, self, interrupted, total: next[0], highest: 0, hasAll: true };
}

/** All call paths, outermost first. */
const paths = treeOf({ depth: data.paths.depth, member: data.paths.member, own: data.paths.insns, samples: data.paths.samples });

/** The row of the function in which a path ends; inlined code is part of the function around it. */
function rowOfPath(tree, path) {
    for (let outer = path; outer >= 0; outer = tree.parent[outer]) {
        const member = tree.member[outer];
        if (members.kind[member] !== INLINED) return members.function[member];
    }
    return -1;
}

/** Paths that are built member by member; the parent of the outermost ones is -1. */
class Trie {
    constructor() {
        Object.assign(this, { member: [], parent: [], width: [], taken: [], known: new Map() });
    }

    step(from, member, width, taken) {
        const key = (from + 1) * memberNames.length + member;
        let node = this.known.get(key);
        if (node === undefined) {
            node = this.member.length;
            this.known.set(key, node);
            this.member.push(member);
            this.parent.push(from);
            this.width.push(0);
            this.taken.push(0);
        }
        this.width[node] += width;
        this.taken[node] += taken;
        return node;
    }

    /** Adds its nodes to a tree, the widest first, below an existing path (-1: none); each node is `by` levels further. */
    into(tree, below, by) {
        const inner = Array.from({ length: this.member.length + 1 }, () => []);
        this.parent.forEach((parent, node) => inner[parent + 1].push(node));
        const widest = (list) => list.sort((one, other) => this.width[other] - this.width[one] || one - other).reverse();
        const first = below < 0 ? 0 : tree.start[below];
        const todo = widest(inner[0]);
        const at = new Map([[-1, below]]);
        const next = new Map([[-1, first]]);
        const open = [];
        while (todo.length) {
            const node = todo.pop();
            const path = tree.member.length;
            const parent = this.parent[node];
            while (open.length && tree.level[open[open.length - 1]] * by >= (tree.level[at.get(parent)] ?? 0) * by + 1) {
                tree.end[open.pop()] = path;
            }
            at.set(node, path);
            const start = next.get(parent);
            next.set(parent, start + this.width[node]);
            next.set(node, start);
            tree.member.push(this.member[node]);
            tree.parent.push(at.get(parent));
            tree.level.push((at.get(parent) < 0 ? 0 : tree.level[at.get(parent)]) + by);
            tree.start.push(start);
            tree.width.push(this.width[node]);
            tree.taken.push(this.taken[node]);
            tree.self.push(0);
            tree.end.push(0);
            open.push(path);
            for (const more of widest(inner[node + 1])) todo.push(more);
        }
        for (const path of open) tree.end[path] = tree.member.length;
        tree.count = tree.member.length;
    }
}

const noTree = () => ({ count: 0, member: [], level: [], parent: [], end: [], start: [], width: [], taken: [], self: [], interrupted: [], total: 0, highest: 0, hasAll: true });

/** Tree with each function at the top and its callers below it. A caller is as wide as the self instructions that the function
 * executed in calls through it. Inlined code is part of the function around it. */
function bottomUp(tree) {
    const trie = new Trie();
    for (let path = 0; path < tree.count; path++) {
        if (tree.own[path] === 0) continue;
        let node = -1;
        for (let outer = path; outer >= 0; outer = tree.parent[outer]) {
            const member = tree.member[outer];
            if (members.kind[member] === INLINED) continue;
            node = trie.step(node, member, tree.own[path], tree.taken[path] - innerSamples(tree, path));
        }
    }
    const inverted = noTree();
    trie.into(inverted, -1, 1);
    inverted.total = tree.total;
    inverted.level.forEach((level, path) => { if (level === 1) inverted.self[path] = inverted.width[path]; });
    return inverted;
}

/** Samples of all paths that continue a path. */
function innerSamples(tree, path) {
    let sum = 0;
    for (let inner = path + 1; inner < tree.end[path]; inner = tree.end[inner]) sum += tree.taken[inner];
    return sum;
}

/** Tree with a function in the middle, its callers above and its callees below, all by the function's inclusive instructions.
 * Of recursive calls, only the outermost one counts. */
function sandwich(tree, row) {
    const [above, below] = [new Trie(), new Trie()];
    const both = noTree();
    let [first, width, taken, self, interrupted] = [-1, 0, 0, 0, 0];
    for (let path = 0; path < tree.count;) {
        const member = tree.member[path];
        if (members.kind[member] === INLINED || members.function[member] !== row) {
            path++;
            continue;
        }
        if (first < 0) first = member;
        width += tree.width[path];
        taken += tree.taken[path];
        interrupted += tree.interrupted[path];
        let node = -1;
        for (let outer = tree.parent[path]; outer >= 0; outer = tree.parent[outer]) {
            if (members.kind[tree.member[outer]] === INLINED) continue;
            node = above.step(node, tree.member[outer], tree.width[path], tree.taken[path]);
        }
        self += tree.self[path];
        const nodes = [-1];
        const level = tree.level[path];
        for (let inner = path + 1; inner < tree.end[path]; inner++) {
            const depth = tree.level[inner] - level;
            nodes[depth] = below.step(nodes[depth - 1], tree.member[inner], tree.width[inner], tree.taken[inner]);
            if (members.kind[tree.member[inner]] !== INLINED && members.function[tree.member[inner]] === row) self += tree.self[inner];
        }
        path = tree.end[path];
    }
    both.total = width;
    both.hasAll = false;
    if (first < 0) return both;
    for (const [column, value] of Object.entries({ member: first, level: 0, parent: -1, end: 0, start: 0, width, taken, self, interrupted })) both[column].push(value);
    below.into(both, 0, 1);
    above.into(both, 0, -1);
    both.end[0] = both.count;
    both.highest = both.level.reduce((one, other) => Math.min(one, other), 0);
    return both;
}

// Scope of the page: the whole run, one task, or some slices ---------------------------------------------------------------------------

/** Ranges of each task's paths, by the name of its outermost frame. */
const taskRanges = (() => {
    const ranges = new Map();
    for (let path = 0; path < paths.count;) {
        const member = paths.member[path];
        if (members.kind[member] !== TASK) {
            path++;
            continue;
        }
        const name = memberNames[member];
        if (!ranges.has(name)) ranges.set(name, []);
        ranges.get(name).push([path, paths.end[path]]);
        path = paths.end[path];
    }
    return ranges;
})();

/** The paths of one task as a tree, and its numbers by row and by interrupt. */
function taskScope(number) {
    const title = `task ${visible(data.tasks[number].name)}`;
    const ranges = taskRanges.get(title) ?? [];
    const columns = { depth: [], member: [], own: [], samples: [] };
    for (const [from, to] of ranges) {
        for (let path = from; path < to; path++) {
            columns.depth.push(paths.level[path] - paths.level[from]);
            columns.member.push(paths.member[path]);
            columns.own.push(paths.own[path]);
            columns.samples.push(data.paths.samples[path]);
        }
    }
    return scopeOf({ noun: 'the task', title, isSampled: !data.exact }, columns);
}

/** First and last column of the slices that the page's address names; null: it names none. */
function sliceRange(text) {
    const columns = data.zones.slices?.taken ? data.zones.slices.insns.length : 0;
    const range = (text ?? '').split('-').map(Number);
    return range.length === 2 && range.every((at) => Number.isInteger(at) && at >= 0 && at < columns) && range[0] <= range[1] ? range : null;
}

/** The paths of the samples taken in some slices; each sample stands for an equal share of the slices' instructions. */
function sliceScope([from, until]) {
    const { slice_insns, count, per_column, insns, taken } = data.zones.slices;
    const samples = new Array(data.paths.depth.length).fill(0);
    let all = 0;
    for (let at = taken.first[from]; at < taken.first[until + 1]; at++) {
        samples[taken.paths[at]] += taken.samples[at];
        all += taken.samples[at];
    }
    const executed = insns.slice(from, until + 1).reduce((one, other) => one + other, 0);
    const own = samples.map((number) => (all > 0 ? (number * executed) / all : 0));
    const [first, last] = [from * per_column, Math.min(count, (until + 1) * per_column) - 1];
    const title = first === last ? `slice ${first}` : `slices ${first} to ${last}`;
    const noun = first === last ? 'the slice' : 'these slices';
    return scopeOf({ noun, title: `${title} of ${group(slice_insns)} instructions`, isSampled: true }, { depth: data.paths.depth, member: data.paths.member, own, samples });
}

/** A part of the run, summed up from its call paths. */
function scopeOf(part, columns) {
    const tree = treeOf(columns);
    const [self, inclusive, samples] = [0, 1, 2].map(() => new Float64Array(rowCount));
    const interrupts = new Map();
    for (let path = 0; path < tree.count; path++) {
        const [own, taken] = [tree.own[path], columns.samples[path]];
        if (own === 0 && taken === 0) continue;
        const seen = new Set();
        const row = rowOfPath(tree, path);
        if (row >= 0) {
            self[row] += own;
            samples[row] += taken;
        }
        for (let outer = path; outer >= 0; outer = tree.parent[outer]) {
            const member = tree.member[outer];
            if (members.kind[member] === IRQ) {
                // An interrupt's instructions do not count for the code that it interrupts.
                const sum = interrupts.get(memberNames[member]) ?? [0, 0];
                interrupts.set(memberNames[member], [sum[0] + own, sum[1] + taken]);
                break;
            }
            const of = members.function[member];
            if (of < 0 || seen.has(of)) continue;
            seen.add(of);
            inclusive[of] += own;
        }
    }
    return { part, tree, total: tree.total, self, inclusive, samples, interrupts };
}

const wholeRun = {
    part: null,
    tree: paths,
    total: data.total_insns,
    self: functions.self,
    inclusive: functions.inclusive,
    samples: functions.samples,
    interrupts: new Map(data.interrupts.map((interrupt) => [visible(interrupt.name), [interrupt.insns, interrupt.samples]])),
};

/** The scope that is shown. */
let scope = wholeRun;

/** Callers and callees of a row, with its inclusive instructions, by the paths of the scope. */
function neighbours(row) {
    const { tree } = scope;
    const [callers, callees] = [new Map(), new Map()];
    const add = (map, key, own) => map.set(key, (map.get(key) ?? 0) + own);
    for (let path = 0; path < tree.count; path++) {
        const own = tree.own[path];
        if (own === 0) continue;
        const chain = [];
        for (let outer = path; outer >= 0 && members.kind[tree.member[outer]] !== IRQ; outer = tree.parent[outer]) {
            const of = members.function[tree.member[outer]];
            if (of >= 0 && members.kind[tree.member[outer]] !== INLINED) chain.push(of);
        }
        const [outer, inner] = [new Set(), new Set()];
        chain.forEach((of, at) => {
            if (of === row && at + 1 < chain.length) outer.add(chain[at + 1]);
            if (of === row && at > 0) inner.add(chain[at - 1]);
        });
        for (const of of outer) add(callers, of, own);
        for (const of of inner) add(callees, of, own);
    }
    return { callers, callees };
}

