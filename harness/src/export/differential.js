// SPDX-License-Identifier: MIT OR Apache-2.0
"use strict";
// Zoom and search for both panels at once. A frame has the same number (data-n) in both panels. Numbers run depth
// first, so the frames below a frame have the numbers after its own, up to data-e.
const panels = [];
let matched = "";

window.addEventListener("load", () => {
    for (const group of document.querySelectorAll(".panel")) {
        const frames = Array.from(group.children, (g) => {
            const rect = g.querySelector("rect"), title = g.querySelector("title").textContent;
            return {
                g, rect, title, text: g.querySelector("text"),
                // The hover text without its last pair of parentheses, which holds the numbers.
                name: title.replace(/ \([^(]*\)$/, ""), change: g.dataset.c || "",
                n: +g.dataset.n, end: +g.dataset.e, x: +g.dataset.x, width: +g.dataset.w,
                fill: rect.getAttribute("fill"),
            };
        });
        panels.push({ frames, side: group.dataset.side });
    }
    const given = new URLSearchParams(location.search);
    if (given.has("n")) zoom(+given.get("n"));
    if (given.has("s")) search(given.get("s"));
});

// Shows a frame and all frames below it in both panels. Both have one scale, unless one panel would be too narrow to read.
function zoom(number) {
    const tops = panels.map((panel) => panel.frames.find((frame) => frame.n === number));
    const widths = tops.map((top) => (top ? top.width : 0));
    const widest = Math.max(...widths), narrowest = Math.min(...widths);
    if (widest === 0) return;
    const own = narrowest > 0 && Math.floor(widest / most_times) > narrowest;
    panels.forEach((panel, index) => {
        const top = tops[index], width = own ? widths[index] : widest;
        for (const frame of panel.frames) {
            const below = top && frame.n >= top.n && frame.n < top.end;
            const above = frame.n < number && frame.end > number;
            frame.g.classList.toggle("hide", !below && !above);
            frame.g.classList.toggle("parent", above);
            if (above) place(frame, 0, 1);
            else if (below) place(frame, (frame.x - top.x) / width, frame.width / width);
        }
    });
    document.getElementById("scale").textContent = own ? own_scales : one_scale;
    document.getElementById("unzoom").classList.toggle("hide", number === 0);
    remember("n", number === 0 ? null : number);
}

// Moves a frame; its start and its width are fractions of the picture's width.
function place(frame, start, width) {
    const x = padding + start * span, pixels = width * span;
    frame.rect.setAttribute("x", x.toFixed(2));
    frame.rect.setAttribute("width", pixels.toFixed(2));
    frame.text.setAttribute("x", (x + 3).toFixed(2));
    const letters = Math.floor((pixels - 3) / letter), whole = frame.name + " " + frame.change;
    if (frame.change && whole.length <= letters) frame.text.textContent = whole;
    else if (frame.name.length <= letters) frame.text.textContent = frame.name;
    else frame.text.textContent = letters < 3 ? "" : frame.name.substring(0, letters - 2) + "..";
}

function search(term) {
    let re;
    try { re = new RegExp(term); } catch { return; }
    const shares = panels.map((panel) => {
        // A frame below a matching frame is part of that frame's count.
        let insns = 0, end = 0;
        for (const frame of panel.frames) {
            const hit = re.test(frame.title);
            frame.rect.setAttribute("fill", hit ? "rgb(230,0,230)" : frame.fill);
            if (hit && frame.n >= end) {
                insns += frame.width;
                end = frame.end;
            }
        }
        const all = panel.frames.length ? panel.frames[0].width : 0;
        return panel.side + " " + (all ? 100 * insns / all : 0).toFixed(1) + "%";
    });
    matched = term;
    document.getElementById("search").textContent = "Reset Search";
    document.getElementById("search").classList.add("show");
    document.getElementById("matched").textContent = "Matched: " + shares.join(", ");
    remember("s", term);
}

function reset_search() {
    for (const panel of panels)
        for (const frame of panel.frames) frame.rect.setAttribute("fill", frame.fill);
    matched = "";
    document.getElementById("search").textContent = "Search";
    document.getElementById("search").classList.remove("show");
    document.getElementById("matched").textContent = "";
    remember("s", null);
}

function ask() {
    if (matched) return reset_search();
    const term = prompt("Enter a search term (regexp allowed, eg: ^ext4_)", "");
    if (term) search(term);
}

// Keeps the zoom and the search in the page's address, so that links can have them.
function remember(key, value) {
    const params = new URLSearchParams(location.search);
    if (value === null) params.delete(key); else params.set(key, value);
    try { history.replaceState(null, "", "?" + params); } catch { /* shown in a page without an address */ }
}

function frame_of(target) {
    return target.closest(".panel > g");
}

window.addEventListener("click", (event) => {
    const frame = frame_of(event.target);
    if (frame) zoom(+frame.dataset.n);
    else if (event.target.id === "unzoom") zoom(0);
    else if (event.target.id === "search") ask();
});
window.addEventListener("mouseover", (event) => {
    const frame = frame_of(event.target);
    if (frame) document.getElementById("details").textContent = "Function: " + frame.querySelector("title").textContent;
});
window.addEventListener("mouseout", () => { document.getElementById("details").textContent = " "; });
window.addEventListener("keydown", (event) => {
    if (event.key === "F3" || (event.ctrlKey && event.key === "f")) {
        event.preventDefault();
        ask();
    }
});
