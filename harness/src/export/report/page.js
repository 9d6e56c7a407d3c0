'use strict';
// Draws the page from its data (data.rs says what the columns are). Names come from the image and may hold anything:
// they are only ever written as text.
(() => {

const data = JSON.parse(document.getElementById('data').textContent);
const ROW_PX = 20;
/** Rows that exist beyond those in sight, on either side. */
const SPARE_ROWS = 8;
const KINDS = ['task', 'interrupt', 'function', 'inlined', 'not known'];
const [TASK, IRQ, FUNCTION, INLINED, OTHER] = [0, 1, 2, 3, 4];

// Text ------------------------------------------------------------------------------------------------------------

const by = (id) => document.getElementById(id);

/** An element with properties and children; strings become text. */
function make(tag, properties = {}, ...children) {
    const element = document.createElement(tag);
    for (const [name, value] of Object.entries(properties)) {
        if (name.startsWith('on')) element.addEventListener(name.slice(2), value);
        else if (name === 'class') element.className = value;
        else if (value !== undefined && value !== null) element.setAttribute(name, value);
    }
    element.append(...children);
    return element;
}

/** A text as it can be seen: control characters as their pictures, what is invisible or turns the direction of
 * writing by number (`is_command` in text/terminal.rs). */
function visible(text) {
    return text.replace(/[\u0000-\u001f\u007f-\u009f\u00ad\u061c\u180e\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb\u{e0000}-\u{e007f}]/gu, (character) => {
        const code = character.codePointAt(0);
        return code < 0x20 ? String.fromCodePoint(0x2400 + code) : `\\u${code.toString(16).padStart(4, '0')}`;
    });
}

const string = (number) => visible(data.strings[number] ?? '?');
const group = (number) => String(number).replace(/\B(?=(\d{3})+$)/g, ',');
const percent = (part, whole) => `${(whole > 0 ? (100 * part) / whole : 0).toFixed(2)}%`;
const plural = (count, one, more = `${one}s`) => `${group(count)} ${count === 1 ? one : more}`;
const fileName = (path) => path.split(/[/\\]/).pop();
const hex = (start, offset) => {
    const digits = (BigInt(start) + BigInt(offset)).toString(16);
    return `0x${digits.padStart(8, '0')}`;
};

// Functions ---------------------------------------------------------------------------------------------------------

const functions = data.functions;
const rowCount = functions.name.length;
const functionName = (row) => string(functions.name[row]);
const names = functions.name.map((name) => string(name));

function place(row) {
    if (functions.file[row] < 0) return '';
    const line = functions.line[row];
    return string(functions.file[row]) + (line < 0 ? '' : `:${line}`);
}

/** A button that opens a function; text alone for what is none. */
function functionLink(row, then) {
    return make('button', { class: 'name', type: 'button', onclick: () => open(row, then) }, functionName(row));
}

/** What a caller or callee is called: a row, or below 0 the number of a string. */
const endName = (end) => (end >= 0 ? functionName(end) : string(-1 - end));

const callersOf = new Map();
const calleesOf = new Map();
data.arcs.caller.forEach((caller, arc) => {
    const callee = data.arcs.callee[arc];
    if (!calleesOf.has(caller)) calleesOf.set(caller, []);
    if (!callersOf.has(callee)) callersOf.set(callee, []);
    calleesOf.get(caller).push(arc);
    callersOf.get(callee).push(arc);
});

// Tables of any length ----------------------------------------------------------------------------------------------

let tables = 0;

/**
 * A table of which only the rows in sight exist. Columns: name, width (of a grid), cell(row): text or element,
 * number, key(row) to sort by, share(row) from 0 to 1 for a bar, title(row).
 */
class Table {
    constructor(host, { label, columns, most = () => 400, opens, look, moved }) {
        Object.assign(this, { columns, most, opens, look, moved, order: [], active: -1, sorted: -1, descending: true });
        this.id = `table${tables++}`;
        this.head = make('div', { class: 'head', role: 'row' });
        this.size = make('div');
        this.body = make('div', { class: opens ? 'body opens' : 'body', role: 'rowgroup' }, this.size);
        this.table = make('div', { class: 'table', role: 'grid', 'aria-label': label, tabindex: '0' },
            this.head, this.body);
        this.grid = columns.map((column) => column.width).join(' ');
        this.head.style.gridTemplateColumns = this.grid;
        columns.forEach((column, index) => {
            const content = column.key
                ? make('button', { type: 'button', title: column.hint, onclick: () => this.sort(index) }, column.name)
                : make('span', { class: 'label', title: column.hint }, column.name);
            this.head.append(make('div', { role: 'columnheader', class: column.number ? 'number' : '' }, content));
        });
        this.body.addEventListener('scroll', () => this.draw(), { passive: true });
        this.table.addEventListener('keydown', (event) => this.key(event));
        this.size.addEventListener('click', (event) => {
            const row = event.target.closest('.row');
            if (!row || String(getSelection())) return;
            this.activate(Number(row.dataset.at));
            if (this.opens) this.opens(this.order[this.active]);
        });
        new ResizeObserver(() => this.draw()).observe(this.body);
        host.replaceChildren(this.table);
    }

    /** Shows these rows, sorted as before. */
    show(rows) {
        this.given = rows;
        this.order = [...rows];
        if (this.sorted >= 0) this.arrange();
        this.active = -1;
        this.body.scrollTop = 0;
        this.resize();
    }

    resize() {
        const height = this.order.length * ROW_PX;
        this.size.style.height = `${height}px`;
        this.size.style.position = 'relative';
        this.body.style.height = `${Math.max(ROW_PX, Math.min(height, this.most()))}px`;
        this.table.setAttribute('aria-rowcount', this.order.length + 1);
        this.drawn = null;
        this.draw();
    }

    sort(index, descending) {
        const ofNumbers = Boolean(this.columns[index].number);
        this.descending = descending ?? (this.sorted === index ? !this.descending : ofNumbers);
        this.sorted = index;
        [...this.head.children].forEach((head, at) => {
            if (at === index) head.setAttribute('aria-sort', this.descending ? 'descending' : 'ascending');
            else head.removeAttribute('aria-sort');
        });
        const active = this.order[this.active];
        this.order = [...this.given];
        this.arrange();
        this.active = this.order.indexOf(active);
        this.body.scrollTop = 0;
        this.redraw();
    }

    arrange() {
        const { key } = this.columns[this.sorted];
        const sign = this.descending ? -1 : 1;
        // Stable: equal ones stay in the order of the data.
        this.order.sort((one, other) => {
            const [a, b] = [key(one), key(other)];
            return a < b ? -sign : a > b ? sign : 0;
        });
    }

    redraw() {
        this.drawn = null;
        this.draw();
    }

    draw() {
        const top = this.body.scrollTop;
        const first = Math.max(0, Math.floor(top / ROW_PX) - SPARE_ROWS);
        const last = Math.min(this.order.length, Math.ceil((top + this.body.clientHeight) / ROW_PX) + SPARE_ROWS);
        if (this.drawn && this.drawn[0] === first && this.drawn[1] === last) return;
        this.drawn = [first, last];
        const rows = [];
        for (let at = first; at < last; at++) rows.push(this.row(at));
        if (this.order.length === 0) rows.push(make('div', { class: 'none' }, 'none'));
        this.size.replaceChildren(...rows);
        const shown = this.active >= first && this.active < last;
        if (shown) this.table.setAttribute('aria-activedescendant', `${this.id}-${this.active}`);
        else this.table.removeAttribute('aria-activedescendant');
    }

    row(at) {
        const row = this.order[at];
        const element = make('div', { class: 'row', role: 'row', id: `${this.id}-${at}`, 'aria-rowindex': at + 2 });
        element.dataset.at = at;
        element.style.top = `${at * ROW_PX}px`;
        element.style.gridTemplateColumns = this.grid;
        if (at === this.active) element.classList.add('active');
        for (const column of this.columns) {
            const cell = make('div', { role: 'gridcell', class: column.class ?? '' }, column.cell(row) ?? '');
            if (column.number) cell.classList.add('number');
            if (column.share) {
                cell.classList.add('share');
                cell.style.setProperty('--part', `${Math.min(100, 100 * column.share(row))}%`);
            }
            if (column.title) cell.title = column.title(row);
            element.append(cell);
        }
        this.look?.(row, element);
        return element;
    }

    /** Makes a row the one that the keyboard is at, and brings it in sight. */
    activate(at, toMiddle = false) {
        this.active = Math.max(-1, Math.min(this.order.length - 1, at));
        const top = this.active * ROW_PX;
        const height = this.body.clientHeight;
        if (toMiddle && (top < this.body.scrollTop || top + ROW_PX > this.body.scrollTop + height)) {
            this.body.scrollTop = top - height / 2;
        } else if (top < this.body.scrollTop) this.body.scrollTop = top;
        else if (top + ROW_PX > this.body.scrollTop + height) this.body.scrollTop = top + ROW_PX - height;
        this.redraw();
    }

    key(event) {
        if (event.target !== this.table || event.ctrlKey || event.metaKey || event.altKey) return;
        const page = Math.max(1, Math.floor(this.body.clientHeight / ROW_PX) - 1);
        const to = {
            ArrowDown: this.active + 1,
            ArrowUp: Math.max(0, this.active - 1),
            PageDown: this.active + page,
            PageUp: Math.max(0, this.active - page),
            Home: 0,
            End: this.order.length - 1,
        }[event.key];
        if (to !== undefined) {
            this.activate(to);
            this.moved?.(this.order[this.active]);
        } else if (event.key === 'Enter' && this.active >= 0) this.opens?.(this.order[this.active]);
        else return;
        event.preventDefault();
    }
}

// Where one is: in the address, so that Back goes back -----------------------------------------------------------------

/** The chosen function's row, the path that is zoomed to, and what is searched for. */
let state = { f: null, z: null, q: '' };

function readHash() {
    const fields = new URLSearchParams(location.hash.slice(1));
    const number = (name, most) => {
        const text = fields.get(name);
        return text !== null && /^\d+$/.test(text) && Number(text) < most ? Number(text) : null;
    };
    return { f: number('f', rowCount), z: number('z', paths.count), q: fields.get('q') ?? '' };
}

function hashOf({ f, z, q }) {
    const fields = new URLSearchParams();
    if (f !== null) fields.set('f', f);
    if (z !== null) fields.set('z', z);
    if (q) fields.set('q', q);
    return `#${fields}`;
}

/** Goes somewhere else; what is not named stays. */
function go(change, replace = false) {
    const next = { ...state, ...change };
    if (hashOf(next) !== (location.hash || '#')) {
        history[replace ? 'replaceState' : 'pushState'](null, '', hashOf(next));
    }
    enter(next);
}

function enter(next) {
    const last = state;
    state = next;
    if (last.q !== next.q) search();
    if (last.z !== next.z) flames.zoomed();
    if (last.f !== next.f) showFunction();
}

/** Opens a function and brings it in sight. */
function open(row, { scroll = true } = {}) {
    if (row === null || row === undefined || row < 0) return;
    go({ f: row });
    if (scroll) {
        by('function').scrollIntoView({ block: 'start' });
        by('function-title').focus({ preventScroll: true });
    }
}

// Colours: what a frame is, and how hot ---------------------------------------------------------------------------------

const isDark = () => document.documentElement.dataset.theme === 'dark';

/** FNV-1a, then mixed: a little of it tells neighbours apart, the same in every page. */
function dither(name) {
    let hash = 0x811c9dc5;
    for (let at = 0; at < name.length; at++) hash = Math.imul(hash ^ name.charCodeAt(at), 0x01000193);
    hash = Math.imul(hash ^ (hash >>> 16), 0x85ebca6b);
    hash = Math.imul(hash ^ (hash >>> 13), 0xc2b2ae35);
    return (hash >>> 8) / (1 << 24) - 0.5;
}

/** As the flamegraph that `harness` draws: functions the warmer the hotter, inlined green, tasks blue, interrupts purple. */
function color(kind, name, share, dark) {
    const heat = Math.sqrt(share);
    const some = dither(name);
    let [hue, saturation, lightness] = {
        [TASK]: [214 + 44 * some, 0.54, 0.74 + 0.12 * some],
        [IRQ]: [285 + 24 * some, 0.45, 0.76 + 0.05 * some],
        [FUNCTION]: [48 - 34 * heat + 10 * some, 0.62 + 0.3 * heat, 0.8 - 0.18 * heat + 0.07 * some * (1 - heat)],
        [INLINED]: [150 + 40 * some, 0.3 + 0.15 * heat, 0.8 - 0.1 * heat],
        [OTHER]: [60, 0.02, 0.8],
    }[kind];
    // On black the hottest is the brightest.
    if (dark) [saturation, lightness] = [saturation * (0.6 + 0.2 * heat), 0.27 + 0.13 * heat + 0.04 * some];
    return `hsl(${hue.toFixed(1)} ${(100 * saturation).toFixed(1)}% ${(100 * lightness).toFixed(1)}%)`;
}

// Call paths -------------------------------------------------------------------------------------------------------------

const paths = (() => {
    const { depth, member, insns, samples } = data.paths;
    const count = depth.length;
    const parent = new Int32Array(count);
    /** The first path that does not begin with this one. */
    const end = new Int32Array(count).fill(count);
    const open = [];
    for (let path = 0; path < count; path++) {
        while (open.length > depth[path]) end[open.pop()] = path;
        parent[path] = open.length ? open[open.length - 1] : -1;
        open.push(path);
    }
    const width = Float64Array.from(insns);
    const taken = Float64Array.from(samples);
    for (let path = count - 1; path >= 0; path--) {
        if (parent[path] < 0) continue;
        width[parent[path]] += width[path];
        taken[parent[path]] += taken[path];
    }
    const start = new Float64Array(count);
    const next = new Float64Array(count + 1);
    for (let path = 0; path < count; path++) {
        const outer = parent[path] + 1;
        start[path] = next[outer];
        next[outer] += width[path];
        next[path + 1] = start[path];
    }
    return { count, depth, member, parent, end, start, width, taken, own: insns, total: next[0] };
})();

const members = data.members;
const memberNames = members.name.map((name) => string(name));

/** How much of the hottest function's instructions a frame's are. */
const memberHeat = (() => {
    const own = new Float64Array(memberNames.length);
    for (let path = 0; path < paths.count; path++) {
        if (paths.own[path] === 0) continue;
        for (let outer = path; outer >= 0; outer = paths.parent[outer]) {
            own[paths.member[outer]] += paths.own[path];
            if (members.kind[paths.member[outer]] !== INLINED) break;
        }
    }
    const most = own.reduce((one, other) => Math.max(one, other), 1);
    return own.map((insns) => Math.min(1, insns / most));
})();

/** The row of the function that a path ends in; what is inlined is part of the one around it. */
function rowOfPath(path) {
    for (let outer = path; outer >= 0; outer = paths.parent[outer]) {
        const member = paths.member[outer];
        if (members.kind[member] !== INLINED) return members.function[member];
    }
    return -1;
}

const flames = (() => {
    const box = by('flames');
    const canvas = by('flames-canvas');
    const pen = canvas.getContext('2d');
    const FRAME_PX = 18;
    const FONT = '11px ui-monospace, "SF Mono", Menlo, Consolas, "DejaVu Sans Mono", monospace';
    let letter = 6.6;
    let colors = null;
    let matches = null;
    /** The path that the keyboard is at; -1: all. */
    let at = -1;
    let scheduled = false;

    const view = () => (state.z === null
        ? { start: 0, width: Math.max(1, paths.total) }
        : { start: paths.start[state.z], width: Math.max(1, paths.width[state.z]) });

    function refresh() {
        if (scheduled) return;
        scheduled = true;
        requestAnimationFrame(() => {
            scheduled = false;
            draw();
        });
    }

    /** As high as what is wide enough to be drawn. */
    function fit() {
        const { start, width: all } = view();
        const least = (0.3 * all) / Math.max(1, box.clientWidth);
        let levels = 1;
        for (let path = 0; path < paths.count;) {
            const x = paths.start[path] - start;
            if (paths.width[path] < least || x >= all || x + paths.width[path] <= 0) path = paths.end[path];
            else levels = Math.max(levels, paths.depth[path++] + 2);
        }
        by('flames-size').style.height = `${levels * FRAME_PX}px`;
        box.style.height = `${levels * FRAME_PX + 2}px`;
    }

    function draw() {
        fit();
        const dark = isDark();
        const style = getComputedStyle(document.documentElement);
        const ink = style.getPropertyValue('--ink');
        const marked = style.getPropertyValue('--match');
        colors ??= memberNames.map((name, member) => color(members.kind[member], name, memberHeat[member], dark));
        const ratio = window.devicePixelRatio || 1;
        const [width, height] = [box.clientWidth, box.clientHeight];
        if (canvas.width !== Math.round(width * ratio) || canvas.height !== Math.round(height * ratio)) {
            [canvas.width, canvas.height] = [Math.round(width * ratio), Math.round(height * ratio)];
            canvas.style.width = `${width}px`;
            canvas.style.height = `${height}px`;
        }
        pen.setTransform(ratio, 0, 0, ratio, 0, 0);
        pen.clearRect(0, 0, width, height);
        pen.font = FONT;
        pen.textBaseline = 'middle';
        letter = pen.measureText('mmmmmmmmmm').width / 10;
        const top = box.scrollTop;
        const { start, width: all } = view();
        const scale = width / all;
        const put = (x, w, level, fill, text, dim, isAt) => {
            const y = level * FRAME_PX - top;
            if (y + FRAME_PX < 0) return;
            const [left, right] = [Math.max(0, x), Math.min(width, x + w)];
            const gap = right - left > 3 ? 1 : 0;
            pen.globalAlpha = dim ? 0.5 : 1;
            pen.fillStyle = fill;
            pen.fillRect(left, y, right - left - gap, FRAME_PX - 1);
            const room = Math.floor((right - left - 8) / letter);
            if (room >= 3) {
                pen.globalAlpha = 1;
                pen.fillStyle = ink;
                pen.fillText(text.length > room ? `${text.slice(0, room - 1)}…` : text, left + 4, y + FRAME_PX / 2);
            }
            pen.globalAlpha = 1;
            if (isAt && document.activeElement === box) {
                pen.strokeStyle = style.getPropertyValue('--accent');
                pen.lineWidth = 2;
                pen.strokeRect(left + 1, y + 1, Math.max(2, right - left - gap - 2), FRAME_PX - 3);
            }
        };
        put(0, width, 0, dark ? '#3a3d40' : '#e8e8e8', 'all', false, at < 0);
        const lowest = (top + height) / FRAME_PX;
        for (let path = 0; path < paths.count;) {
            const x = (paths.start[path] - start) * scale;
            const w = paths.width[path] * scale;
            const level = paths.depth[path] + 1;
            if (w < 0.3 || x + w <= 0.01 || x >= width - 0.01 || level > lowest) {
                path = paths.end[path];
                continue;
            }
            const member = paths.member[path];
            const fill = matches && matches[member] ? marked : colors[member];
            put(x, w, level, fill, memberNames[member], state.z !== null && path < state.z, path === at);
            path++;
        }
    }

    /** The path at a point of the box: null beside them, -1 for all. */
    function hit(event) {
        const bounds = box.getBoundingClientRect();
        const level = Math.floor((event.clientY - bounds.top - box.clientTop + box.scrollTop) / FRAME_PX);
        const { start, width } = view();
        const insns = start + ((event.clientX - bounds.left - box.clientLeft) / box.clientWidth) * width;
        if (level <= 0) return level === 0 ? -1 : null;
        for (let path = 0; path < paths.count;) {
            const inside = insns >= paths.start[path] && insns < paths.start[path] + paths.width[path];
            if (!inside) path = paths.end[path];
            else if (paths.depth[path] + 1 === level) return path;
            else path++;
        }
        return null;
    }

    const nameOf = (path) => (path < 0 ? 'all' : memberNames[paths.member[path]]);
    const numbersOf = (path) => {
        const [insns, samples, own] = path < 0
            ? [paths.total, data.total_samples, 0]
            : [paths.width[path], paths.taken[path], paths.own[path]];
        const parts = [`${plural(insns, 'instruction')}, ${percent(insns, data.total_insns)}`];
        if (own > 0 && own < insns) parts.push(`${group(own)} of them itself`);
        parts.push(plural(samples, 'sample'));
        return parts.join(' · ');
    };

    function tell(path) {
        const row = path < 0 ? -1 : rowOfPath(path);
        const parts = [make('b', {}, nameOf(path)), ` ${path < 0 ? '' : `(${KINDS[members.kind[paths.member[path]]]}) `}`,
            numbersOf(path)];
        if (row >= 0) {
            parts.push(make('button', { type: 'button', onclick: () => open(row) }, 'Open the function'));
        }
        by('frame').replaceChildren(...parts);
    }

    function move(path) {
        at = path;
        const y = (path < 0 ? 0 : paths.depth[path] + 1) * FRAME_PX;
        if (y < box.scrollTop) box.scrollTop = y;
        else if (y + FRAME_PX > box.scrollTop + box.clientHeight) box.scrollTop = y + FRAME_PX - box.clientHeight;
        tell(path);
        refresh();
    }

    function children(path) {
        const list = [];
        const last = path < 0 ? paths.count : paths.end[path];
        for (let inner = path + 1; inner < last; inner = paths.end[inner]) list.push(inner);
        return list;
    }

    function zoom(path) {
        const row = path < 0 ? -1 : rowOfPath(path);
        go({ z: path < 0 ? null : path, ...(row >= 0 ? { f: row } : {}) });
        move(path);
    }

    box.addEventListener('scroll', refresh, { passive: true });
    box.addEventListener('focus', refresh);
    box.addEventListener('blur', refresh);
    new ResizeObserver(refresh).observe(box);
    box.addEventListener('click', (event) => {
        const path = hit(event);
        if (path !== null) zoom(path);
    });
    box.addEventListener('mousemove', (event) => {
        const path = hit(event);
        box.style.cursor = path === null ? 'default' : 'pointer';
        if (path === null) hideTip();
        else {
            const kind = path < 0 ? '' : KINDS[members.kind[paths.member[path]]];
            showTip(event, nameOf(path), [numbersOf(path), kind === 'function' ? '' : kind]);
        }
    });
    box.addEventListener('mouseleave', hideTip);
    box.addEventListener('keydown', (event) => {
        if (event.ctrlKey || event.metaKey || event.altKey) return;
        const siblings = () => children(at < 0 ? -1 : paths.parent[at]);
        const beside = (step) => {
            const all = siblings();
            return at < 0 ? -1 : all[Math.max(0, Math.min(all.length - 1, all.indexOf(at) + step))];
        };
        if (event.key === 'ArrowDown') {
            const inner = children(at);
            if (inner.length) move(inner.reduce((one, other) => (paths.width[other] > paths.width[one] ? other : one)));
        } else if (event.key === 'ArrowUp') move(at < 0 ? -1 : paths.parent[at]);
        else if (event.key === 'ArrowLeft') move(beside(-1));
        else if (event.key === 'ArrowRight') move(beside(1));
        else if (event.key === 'Home') move(-1);
        else if (event.key === 'Enter') zoom(at);
        else if (event.key === 'd') open(at < 0 ? -1 : rowOfPath(at));
        else return;
        event.preventDefault();
    });
    by('reset').addEventListener('click', () => {
        go({ z: null });
        box.focus();
    });

    return {
        zoomed() {
            by('reset').hidden = state.z === null;
            at = state.z ?? -1;
            tell(at);
            refresh();
        },
        themed() {
            colors = null;
            refresh();
        },
        /** Marks frames by a test of their names and returns the instructions below the marked ones. */
        mark(test) {
            matches = test && Uint8Array.from(memberNames, (name) => (test(name) ? 1 : 0));
            let insns = 0;
            for (let path = 0; matches && path < paths.count;) {
                if (matches[paths.member[path]]) {
                    insns += paths.width[path];
                    path = paths.end[path];
                } else path++;
            }
            refresh();
            return insns;
        },
        focus() {
            box.focus();
            tell(at);
        },
        tell,
    };
})();

function showTip(event, name, lines) {
    const tip = by('tip');
    const title = name.length > 300 ? `${name.slice(0, 300)}…` : name;
    tip.replaceChildren(make('b', {}, title), ...lines.filter(Boolean).map((line) => make('div', {}, line)));
    tip.hidden = false;
    const [x, y] = [event.clientX + 14, event.clientY + 16];
    tip.style.left = `${Math.max(4, Math.min(x, innerWidth - tip.offsetWidth - 8))}px`;
    tip.style.top = `${y + tip.offsetHeight > innerHeight ? Math.max(4, y - tip.offsetHeight - 28) : y}px`;
}

function hideTip() {
    by('tip').hidden = true;
}

// The table of functions ---------------------------------------------------------------------------------------------------

const share = (insns) => (data.total_insns > 0 ? insns / data.total_insns : 0);
const aboutInclusive = data.exact
    ? 'Instructions in it and in what it calls, interrupts meanwhile left out. Exact.'
    : 'Instructions in it and in what it calls, interrupts meanwhile left out. Divided over the callers as the samples are; --exact follows every call.';

const functionTable = new Table(by('functions-table'), {
    label: 'Functions',
    most: () => Math.max(200, innerHeight * 0.5),
    opens: (row) => open(row),
    look(row, element) {
        if (row === state.f) element.classList.add('chosen');
        if (row >= functions.executed) element.classList.add('zero');
    },
    columns: [
        { name: 'Function', width: 'minmax(7rem, 3fr)', class: 'mono', cell: functionName, key: (row) => names[row], title: functionName },
        { name: 'Self', width: '8rem', number: true, cell: (row) => group(functions.self[row]), key: (row) => functions.self[row], hint: 'Instructions in it, inlined ones included. Exact.' },
        { name: 'Self %', width: '8rem', number: true, cell: (row) => percent(functions.self[row], data.total_insns), key: (row) => functions.self[row], share: (row) => share(functions.self[row]) },
        { name: data.exact ? 'Inclusive' : 'Inclusive ≈', width: '8rem', number: true, cell: (row) => (data.stacked ? group(functions.inclusive[row]) : '–'), key: (row) => functions.inclusive[row], hint: aboutInclusive },
        { name: 'Calls', width: '6.5rem', number: true, cell: (row) => (functions.is_function[row] ? group(functions.calls[row]) : '–'), key: (row) => functions.calls[row], hint: 'Entries from outside. Exact.' },
        { name: 'Samples', width: '5rem', number: true, cell: (row) => group(functions.samples[row]), key: (row) => functions.samples[row] },
        { name: 'z', width: '3.6rem', number: true, cell: (row) => functions.z[row].toFixed(1), key: (row) => Math.abs(functions.z[row]), hint: 'How far its samples are from its exact share, in standard deviations. Beyond 5, a loop keeps step with the sampling period.' },
        { name: 'Defined at', width: 'minmax(4rem, 2fr)', class: 'dim', cell: (row) => (functions.file[row] < 0 ? '' : fileName(place(row))), key: place, title: place },
    ],
});

// Search ---------------------------------------------------------------------------------------------------------------------

/** A test of names; null: nothing is searched for; undefined: no regular expression. */
function tester(query) {
    if (!query) return null;
    const pattern = /^\/(.+)\/$/.exec(query);
    if (!pattern) {
        const wanted = query.toLowerCase();
        return (name) => name.toLowerCase().includes(wanted);
    }
    try {
        const expression = new RegExp(pattern[1], 'i');
        return (name) => expression.test(name);
    } catch {
        return undefined;
    }
}

function search() {
    const box = by('search');
    if (box.value !== state.q) box.value = state.q;
    const test = tester(state.q);
    if (test === undefined) {
        by('matched').textContent = 'no regular expression';
        return;
    }
    const insns = flames.mark(test);
    by('matched').textContent = test ? `${percent(insns, data.total_insns)} matched` : '';
    const all = by('never').checked ? rowCount : functions.executed;
    const rows = [];
    for (let row = 0; row < all; row++) if (!test || test(names[row])) rows.push(row);
    functionTable.show(rows);
    by('functions-count').textContent = rows.length === all ? group(all) : `${group(rows.length)} of ${group(all)}`;
    functionTable.active = rows.length ? Math.max(0, functionTable.order.indexOf(state.f)) : -1;
    functionTable.redraw();
}

by('search').addEventListener('input', (event) => go({ q: event.target.value }, true));
by('search').addEventListener('keydown', (event) => {
    if (event.key === 'Enter' || event.key === 'ArrowDown') {
        functionTable.table.focus();
        event.preventDefault();
    }
});
by('never').addEventListener('change', search);

// One function -----------------------------------------------------------------------------------------------------------------

/** The number of the source line that is marked, with all that was made from it. */
let marked = -1;
let codeTables = [];

function arcTable(host, label, arcs, end) {
    const columns = [
        { name: label, width: 'minmax(0, 1fr)', class: 'mono', cell: (arc) => endName(end[arc]), key: (arc) => endName(end[arc]), title: (arc) => endName(end[arc]) },
        { name: 'Calls', width: '7rem', number: true, cell: (arc) => group(data.arcs.calls[arc]), key: (arc) => data.arcs.calls[arc], hint: 'Exact.' },
    ];
    if (arcs.some((arc) => data.arcs.tail_calls[arc] > 0)) {
        columns.push({ name: 'by jump', width: '6rem', number: true, cell: (arc) => group(data.arcs.tail_calls[arc]), key: (arc) => data.arcs.tail_calls[arc], hint: 'Tail calls: the last thing that another function did was to jump there.' });
    }
    if (data.stacked) {
        columns.push({ name: data.exact ? 'Inclusive' : 'Inclusive ≈', width: '8.5rem', number: true, cell: (arc) => group(data.arcs.inclusive[arc]), key: (arc) => data.arcs.inclusive[arc], hint: `The callee's, while called so. ${aboutInclusive}` });
    }
    const table = new Table(host, {
        label,
        columns,
        most: () => 9 * ROW_PX,
        opens: (arc) => open(end[arc]),
        look: (arc, element) => {
            if (end[arc] < 0) element.classList.add('zero');
        },
    });
    table.show(arcs);
    table.sort(1, true);
    return table;
}

function showFunction() {
    const row = state.f;
    by('function').hidden = row === null;
    functionTable.redraw();
    if (row === null) return;
    const at = functionTable.order.indexOf(row);
    if (at >= 0) functionTable.activate(at, true);
    marked = -1;
    by('function-title').textContent = functionName(row);
    const numbers = [];
    const say = (value, text) => numbers.push(numbers.length ? ' · ' : '', make('b', {}, value), ` ${text}`);
    say(group(functions.self[row]), `instructions itself (${percent(functions.self[row], data.total_insns)})`);
    if (data.stacked) {
        say(group(functions.inclusive[row]), `with what it calls${data.exact ? '' : ', estimated from samples'}`);
    }
    if (functions.is_function[row]) say(group(functions.calls[row]), functions.calls[row] === 1 ? 'call' : 'calls');
    if (functions.calls[row] > 0) say(group(Math.round(functions.self[row] / functions.calls[row])), 'instructions per call');
    say(group(functions.samples[row]), functions.samples[row] === 1 ? 'sample' : 'samples');
    if (functions.start[row]) numbers.push(` · ${functions.start[row]}`);
    if (place(row)) numbers.push(` · ${place(row)}`);
    numbers.push(' ', make('button', { type: 'button', onclick: () => {
        go({ q: functionName(row), z: null });
        by('flamegraph').scrollIntoView({ block: 'start' });
    } }, 'Mark it in the call paths'));
    by('function-numbers').replaceChildren(...numbers);
    const callers = callersOf.get(row) ?? [];
    const callees = calleesOf.get(row) ?? [];
    by('callers-title').textContent = `Callers (${group(callers.length)})`;
    by('callees-title').textContent = `Callees (${group(callees.length)})`;
    arcTable(by('callers'), 'Caller', callers, data.arcs.caller);
    arcTable(by('callees'), 'Callee', callees, data.arcs.callee);
    showListing(row);
}

/** How much of the hottest, as a background. */
const heated = (element, part, whole) => {
    element.style.setProperty('--heat', `${whole > 0 ? Math.round(90 * Math.sqrt(part / whole)) : 0}%`);
};

function showListing(row) {
    const listing = data.listings[row];
    codeTables = [];
    by('listing').hidden = !listing;
    const notes = [];
    if (row >= functions.executed) notes.push('It never executed.');
    if (!listing) {
        const name = data.strings[functions.name[row]];
        notes.push(row >= functions.executed ? '' : 'This page has no room for its code.', `harness annotate shows it: ${name}`);
    }
    by('listing-note').replaceChildren(notes.filter(Boolean).join(' '));
    by('listing-note').hidden = notes.length === 0;
    if (!listing) return;
    const { lines, runs, insns } = listing;
    const own = functions.self[row];
    const most = (list) => list.reduce((one, other) => Math.max(one, other), 0);
    const [mostOfLine, mostOfInsn] = [most(lines.insns), most(insns.count)];

    // Source: a heading for each file, then its lines.
    const source = [];
    lines.line.forEach((_, line) => {
        if (line === 0 || lines.file[line] !== lines.file[line - 1]) source.push({ file: lines.file[line] });
        else if (lines.line[line] !== lines.line[line - 1] + 1) source.push({ gap: true });
        source.push({ line });
    });
    const sourceCell = (cell) => (at) => (source[at].line === undefined ? '' : cell(source[at].line));
    const count = (line) => (lines.insns[line] < 0 ? '' : group(lines.insns[line]));
    const mark = (line, from) => {
        marked = line;
        for (const table of codeTables) {
            if (table !== from && line >= 0) table.activate(table.places.get(line) ?? -1, true);
            table.redraw();
        }
    };
    const sourceTable = new Table(by('source'), {
        label: 'Source lines',
        most: () => Math.max(200, innerHeight * 0.6),
        opens: (at) => mark(source[at].line ?? -1, sourceTable),
        moved: (at) => mark(source[at].line ?? -1, sourceTable),
        look(at, element) {
            const { line, file, gap } = source[at];
            if (file !== undefined) {
                element.classList.add('file');
                element.style.gridTemplateColumns = '1fr';
                element.replaceChildren(make('div', { role: 'gridcell', class: 'mono', title: string(file) }, string(file)));
            } else if (gap) {
                element.lastChild.append('⋮');
                element.classList.add('nocode');
            } else {
                if (lines.insns[line] < 0) element.classList.add('nocode');
                if (lines.insns[line] === 0) element.classList.add('zero');
                if (line === marked) element.classList.add('same');
                heated(element, Math.max(0, lines.insns[line]), mostOfLine);
            }
        },
        columns: [
            { name: 'Instructions', width: '8rem', number: true, class: 'count', cell: sourceCell(count) },
            { name: '%', width: '4.4rem', number: true, cell: sourceCell((line) => (lines.insns[line] > 0 ? percent(lines.insns[line], own) : '')) },
            { name: 'Samples', width: '4.4rem', number: true, cell: sourceCell((line) => (lines.samples[line] ? group(lines.samples[line]) : '')) },
            { name: 'Line', width: '3.2rem', number: true, class: 'dim', cell: sourceCell((line) => String(lines.line[line])) },
            { name: 'Source', width: 'minmax(0, 1fr)', class: 'mono', cell: sourceCell((line) => visibleSource(lines.text[line])), title: sourceCell((line) => visibleSource(lines.text[line])) },
        ],
    });
    sourceTable.places = new Map(source.map(({ line }, at) => [line, at]));
    sourceTable.show(source.map((_, at) => at));

    // Instructions: a heading for each run of one line, then its instructions.
    const code = [];
    const codePlaces = new Map();
    let next = 0;
    let lastHeading = null;
    runs.len.forEach((len, run) => {
        const line = runs.line[run];
        const inlined = runs.inlined[run].map(string);
        const where = line < 0 ? '' : `${fileName(string(lines.file[line]))}:${lines.line[line]}`;
        const text = line < 0 ? '' : (lines.text[line] ?? '').trim();
        const from = inlined.length ? `  [inlined: ${inlined.join(' > ')}]` : '';
        const heading = `${where}  ${visibleSource(text)}${from}`.trim();
        if (heading && heading !== lastHeading) {
            if (!codePlaces.has(line)) codePlaces.set(line, code.length);
            code.push({ heading, line });
        }
        lastHeading = heading;
        for (let index = 0; index < len; index++) code.push({ insn: next++, line });
    });
    const codeCell = (cell) => (at) => (code[at].insn === undefined ? '' : cell(code[at].insn));
    const codeTable = new Table(by('code'), {
        label: 'Instructions',
        most: () => Math.max(200, innerHeight * 0.6),
        opens: (at) => mark(code[at].line, codeTable),
        moved: (at) => mark(code[at].line, codeTable),
        look(at, element) {
            const { insn, line, heading } = code[at];
            if (heading !== undefined) {
                element.classList.add('heading');
                element.style.gridTemplateColumns = '1fr';
                element.replaceChildren(make('div', { role: 'gridcell', class: 'mono', title: heading }, heading));
            } else {
                if (insns.count[insn] === 0) element.classList.add('zero');
                heated(element, insns.count[insn], mostOfInsn);
            }
            if (line === marked && marked >= 0) element.classList.add('same');
        },
        columns: [
            { name: 'Executed', width: '7.5rem', number: true, class: 'count', cell: codeCell((insn) => group(insns.count[insn])) },
            { name: 'Samples', width: '4.4rem', number: true, cell: codeCell((insn) => (insns.samples[insn] ? group(insns.samples[insn]) : '')) },
            { name: 'Address', width: insns.start.length > 10 ? '10rem' : '6.6rem', class: 'mono dim', cell: codeCell((insn) => hex(insns.start, insns.offset[insn])) },
            { name: 'Instruction', width: 'minmax(0, 1fr)', class: 'mono', cell: codeCell((insn) => (insns.text[insn] ? visible(insns.text[insn]) : '(not in the image)')), title: codeCell((insn) => visible(insns.text[insn])) },
        ],
    });
    codeTable.places = codePlaces;
    codeTable.show(code.map((_, at) => at));
    codeTables = [sourceTable, codeTable];
    by('source').parentElement.hidden = source.length === 0;
    by('listing').style.gridTemplateColumns = source.length === 0 ? '1fr' : '';
    by('source-title').textContent = 'Source: instructions by line';
    by('code-title').textContent = `Machine code: ${plural(insns.count.length, 'instruction')}`;
    if (data.source_notes.length && lines.line.length && lines.text.every((text) => text === null)) {
        by('listing-note').hidden = false;
        by('listing-note').replaceChildren(`The source was not found when this page was made: harness report --source-map FROM=TO says where it is.`);
    }
}

/** Tabs stay; they are as wide as the style says. */
function visibleSource(text) {
    return text === null || text === undefined ? '' : text.split('\t').map(visible).join('    ');
}

by('close').addEventListener('click', () => leaveFunction());

function leaveFunction() {
    go({ f: null });
    functionTable.table.focus({ preventScroll: true });
    by('functions').scrollIntoView({ block: 'nearest' });
}

// Tasks and interrupts ----------------------------------------------------------------------------------------------------------

function plainTable(host, heads, rows) {
    const head = make('tr', {}, ...heads.map((text) => make('th', { scope: 'col' }, text)));
    const lines = rows.map((row) => make('tr', {}, ...row.map((cell) => make('td', {}, cell))));
    host.append(make('table', {}, make('thead', {}, head), make('tbody', {}, ...lines)));
}

/** Marks a frame in the call paths. */
const markLink = (name, text) => make('button', { class: 'name', type: 'button', title: 'Mark it in the call paths', onclick: () => {
    go({ q: text, z: null });
    by('flamegraph').scrollIntoView({ block: 'nearest' });
} }, name);

if (data.tasks.length) {
    by('tasks').hidden = false;
    const host = by('tasks').querySelector('.plain');
    plainTable(host, ['Task', 'Instructions', 'Share', 'Switched in', 'Stack left', 'Paint left'], data.tasks.map((task) => [
        markLink(visible(task.name), `task ${visible(task.name)}`), group(task.insns), percent(task.insns, data.total_insns),
        group(task.switches), task.stack, task.painted,
    ]));
    for (const remark of data.remarks) host.append(make('p', {}, visible(remark)));
}
if (data.interrupts.length) {
    by('interrupts').hidden = false;
    const withSpans = data.interrupts.some((interrupt) => interrupt.spans);
    const host = by('interrupts').querySelector('.plain');
    plainTable(host, ['Interrupt', data.exact ? 'Instructions' : 'Instructions ≈', 'Share', 'Samples',
        ...(withSpans ? ['Times', 'Shortest', 'Mean', 'Longest'] : [])], data.interrupts.map((interrupt) => [
        markLink(visible(interrupt.name), visible(interrupt.name)), group(interrupt.insns),
        percent(interrupt.insns, data.total_insns), group(interrupt.samples),
        ...(withSpans ? (interrupt.spans ?? []).map(group) : []),
    ]));
}
if (!data.tasks.length && data.remarks.length) {
    const section = data.interrupts.length ? by('interrupts') : by('tasks');
    if (!data.interrupts.length) by('tasks-title').textContent = 'Stacks';
    section.hidden = false;
    for (const remark of data.remarks) section.querySelector('.plain').append(make('p', {}, visible(remark)));
}

// Heap ------------------------------------------------------------------------------------------------------------------------------

/** Bytes over time as one picture: what was held, and how far up the arena blocks ever were. */
function heapChart({ at_insns: times, held, most, high_water: highWater }) {
    const [width, height] = [1000, 120];
    const svg = (tag, properties, ...children) => {
        const element = document.createElementNS('http://www.w3.org/2000/svg', tag);
        for (const [name, value] of Object.entries(properties)) element.setAttribute(name, value);
        element.append(...children);
        return element;
    };
    const highest = Math.max(1, ...most, ...highWater);
    const x = (insns) => ((width * insns) / Math.max(1, data.total_insns)).toFixed(1);
    const y = (bytes) => (height - (height * bytes) / highest).toFixed(1);
    // What is held stays so until the next event.
    const steps = (values) => times.map((time, n) => `${n ? `H${x(time)}V` : `M${x(time)},`}${y(values[n])}`).join('') + `H${width}`;
    const line = (values, name) => svg('path', { class: name, d: steps(values), fill: 'none', 'vector-effect': 'non-scaling-stroke' });
    const label = `Bytes of heap over ${group(data.total_insns)} instructions, at most ${group(highest)}`;
    return svg('svg', { class: 'heap-chart', viewBox: `0 0 ${width} ${height}`, preserveAspectRatio: 'none', role: 'img', 'aria-label': label },
        line(highWater, 'high-water'), line(most, 'most'), line(held, 'held'));
}

if (data.heap) {
    const { heap } = data;
    by('heap').hidden = false;
    for (const text of [...heap.lines, ...heap.wrong]) by('heap-lines').append(make('p', {}, visible(text)));
    if (heap.at_insns.length) {
        by('heap-time').append(heapChart(heap), make('p', { class: 'quiet' },
            'Held over time; thin: the most between two points; grey: the high water of the arena.'));
    }
    plainTable(by('heap').querySelector('.plain'), ['Call path', 'At the peak', 'Leaked', 'Allocated', 'Calls', 'Failed'],
        heap.path.map((path, n) => [make('code', {}, visible(path)),
            ...[heap.at_peak, heap.leaked, heap.allocated, heap.calls, heap.failed].map((column) => group(column[n]))]));
    if (heap.more) by('heap').append(make('p', { class: 'quiet' }, `and ${plural(heap.more, 'call path')} more`));
}

// Addresses ------------------------------------------------------------------------------------------------------------------------

const bins = (() => {
    const { bin_bytes: bytes, regions } = data.bins;
    if (!regions.length) return null;
    by('addresses').hidden = false;
    const all = [];
    regions.forEach((region, at) => region.bin.forEach((_, bin) => all.push([at, bin])));
    by('bins-note').textContent = `${plural(all.length, 'used bin')} of ${plural(bytes, 'byte')}; coloured by the logarithm of their instructions`;
    const most = regions.reduce((one, region) => region.insns.reduce((a, b) => Math.max(a, b), one), 1);
    /** Most regions drawn, those with the most instructions. */
    const MOST_STRIPS = 40;
    const sum = (region) => region.insns.reduce((one, other) => one + other, 0);
    const drawn = regions.map((region, at) => [at, sum(region)]).sort((one, other) => other[1] - one[1])
        .slice(0, MOST_STRIPS).sort((one, other) => one[0] - other[0]);
    const strips = drawn.map(([at, insns]) => {
        const region = regions[at];
        const length = region.bin[region.bin.length - 1] + 1;
        const label = `${region.start} … ${hex(region.start, length * bytes - 1)}`;
        const canvas = make('canvas', { role: 'img', 'aria-label': `${label}: ${group(insns)} instructions; the table below names the hottest` });
        by('strips').append(make('div', { class: 'strip' }, make('span', { class: 'mono' }, label), canvas));
        return { canvas, region, length };
    });
    if (regions.length > MOST_STRIPS) by('strips').append(make('p', { class: 'quiet' }, `and ${group(regions.length - MOST_STRIPS)} more regions with fewer instructions`));

    /** The hottest bin under a point. */
    function hit({ canvas, region, length }, event) {
        const bounds = canvas.getBoundingClientRect();
        const from = ((event.clientX - bounds.left - 1.5) / bounds.width) * length;
        const to = ((event.clientX - bounds.left + 1.5) / bounds.width) * length;
        let best = -1;
        region.bin.forEach((bin, index) => {
            const inside = bin + 1 > from && bin < to;
            if (inside && (best < 0 || region.insns[index] > region.insns[best])) best = index;
        });
        return best;
    }
    function draw() {
        for (const { canvas, region, length } of strips) {
            const ratio = window.devicePixelRatio || 1;
            const [width, height] = [Math.max(1, Math.round(canvas.clientWidth * ratio)), Math.round(26 * ratio)];
            [canvas.width, canvas.height] = [width, height];
            const pen = canvas.getContext('2d');
            const heat = new Float64Array(width);
            region.bin.forEach((bin, index) => {
                const from = Math.floor((bin / length) * width);
                const to = Math.max(from + 1, Math.ceil(((bin + 1) / length) * width));
                for (let x = from; x < Math.min(to, width); x++) heat[x] = Math.max(heat[x], region.insns[index]);
            });
            for (let x = 0; x < width; x++) {
                if (heat[x] === 0) continue;
                const part = Math.log1p(heat[x]) / Math.log1p(most);
                pen.fillStyle = isDark()
                    ? `hsl(${48 - 34 * part} ${50 + 30 * part}% ${22 + 42 * part}%)`
                    : `hsl(${48 - 34 * part} ${65 + 25 * part}% ${88 - 42 * part}%)`;
                pen.fillRect(x, 0, 1, height);
            }
        }
    }
    const nameOf = (region, index) => {
        const row = region.function[index];
        if (row < 0) return '';
        if (!functions.start[row]) return functionName(row);
        const offset = BigInt(region.start) + BigInt(region.bin[index] * bytes) - BigInt(functions.start[row]);
        return offset > 0n ? `${functionName(row)}+0x${offset.toString(16)}` : functionName(row);
    };
    for (const strip of strips) {
        strip.canvas.addEventListener('mousemove', (event) => {
            const index = hit(strip, event);
            if (index < 0) return hideTip();
            const { region } = strip;
            return showTip(event, nameOf(region, index) || 'no function', [
                hex(region.start, region.bin[index] * bytes),
                `${plural(region.insns[index], 'instruction')}, ${percent(region.insns[index], data.total_insns)} · ${plural(region.samples[index], 'sample')}`,
            ]);
        });
        strip.canvas.addEventListener('mouseleave', hideTip);
        strip.canvas.addEventListener('click', (event) => {
            const index = hit(strip, event);
            if (index >= 0) open(strip.region.function[index]);
        });
    }
    const at = (bin) => [regions[all[bin][0]], all[bin][1]];
    const table = new Table(by('hottest'), {
        label: 'Bins',
        most: () => 10 * ROW_PX,
        opens: (bin) => {
            const [region, index] = at(bin);
            open(region.function[index]);
        },
        columns: [
            { name: 'Address', width: '11rem', class: 'mono', cell: (bin) => hex(at(bin)[0].start, at(bin)[0].bin[at(bin)[1]] * bytes), key: (bin) => bin },
            { name: 'Instructions', width: '8.5rem', number: true, cell: (bin) => group(at(bin)[0].insns[at(bin)[1]]), key: (bin) => at(bin)[0].insns[at(bin)[1]] },
            { name: 'Share', width: '9rem', number: true, cell: (bin) => percent(at(bin)[0].insns[at(bin)[1]], data.total_insns), share: (bin) => share(at(bin)[0].insns[at(bin)[1]]), key: (bin) => at(bin)[0].insns[at(bin)[1]] },
            { name: 'Samples', width: '5rem', number: true, cell: (bin) => group(at(bin)[0].samples[at(bin)[1]]), key: (bin) => at(bin)[0].samples[at(bin)[1]] },
            { name: 'Function', width: 'minmax(0, 1fr)', class: 'mono', cell: (bin) => nameOf(...at(bin)), title: (bin) => nameOf(...at(bin)) },
        ],
    });
    table.show(all.map((_, bin) => bin));
    table.sort(1, true);
    new ResizeObserver(draw).observe(by('strips'));
    return { draw };
})();

// Cross-check, facts, and the sentence above all --------------------------------------------------------------------------------------

{
    const host = by('check-text');
    data.check.lines.forEach((line) => host.append(make('p', {}, visible(line))));
    if (data.check.in_target.length) {
        const [first, ...rest] = data.check.in_target;
        host.append(make('p', {}, visible(first)));
        if (rest.length) host.append(make('ul', { tabindex: '0', 'aria-label': 'Differences' }, ...rest.map((line) => make('li', {}, visible(line)))));
    }
    for (const [term, text] of data.facts) {
        const isCode = /SHA|again|Compiled|arguments/.test(term);
        by('facts').append(make('dt', {}, term), make('dd', isCode ? { class: 'mono' } : {}, visible(text)));
    }
}

{
    by('image').textContent = visible(data.image);
    by('image').title = visible(data.image);
    const summary = by('summary');
    const total = data.total_insns;
    const headline = make('p', { class: 'headline' });
    if (total === 0) headline.append('No instruction was executed in the measuring window.');
    else {
        const top = [];
        for (let row = 0; row < Math.min(3, functions.executed); row++) {
            if (functions.self[row] > 0) top.push(row);
        }
        headline.append(make('b', {}, group(total)), ` ${total === 1 ? 'instruction' : 'instructions'}: `);
        top.forEach((row, index) => {
            const between = index === 0 ? '' : index < top.length - 1 ? ', ' : top.length > 2 ? ', and ' : ' and ';
            headline.append(between, make('b', {}, percent(functions.self[row], total)), ' in ', functionLink(row));
        });
        const rest = functions.executed - top.length;
        headline.append(rest > 0 ? `; the rest in ${plural(rest, 'other function')}.` : '.');
        const idle = data.tasks.filter((task) => task.idle);
        const parts = [];
        if (idle.length) {
            const insns = idle.reduce((sum, task) => sum + task.insns, 0);
            parts.push(`${percent(insns, total)} idle`);
        }
        if (data.interrupts.length) {
            const insns = data.interrupts.reduce((sum, interrupt) => sum + interrupt.insns, 0);
            parts.push(`${percent(insns, total)} in interrupts${data.exact ? '' : ' (by samples)'}`);
        }
        if (data.unnamed_insns > 0) parts.push(`${percent(data.unnamed_insns, total)} in code without a name`);
        if (parts.length) headline.append(` ${parts.join(', ')}.`);
    }
    const [first] = data.check.lines;
    const verdict = make('p', { class: 'verdict' });
    if (first) {
        const more = data.check.lines.length + data.check.in_target.length - 1;
        verdict.append(make('b', { class: data.check.clean ? 'good' : 'bad' }, data.check.clean ? '✓ ' : '! '), visible(first),
            more > 0 ? ` (${plural(more, 'more line')} below)` : '');
    }
    summary.append(headline, verdict);
    for (const [kind, text] of [[FUNCTION, 'function, the warmer the hotter'], [INLINED, 'inlined'], [TASK, 'task'], [IRQ, 'interrupt'], [OTHER, 'not known']]) {
        if (!members.kind.includes(kind)) continue;
        by('legend').append(make('span', {}, make('i', { 'data-kind': kind }), text));
    }
    if (data.merged_paths > 0) by('legend').append(make('span', {}, `${group(data.merged_paths)} narrow paths are drawn together`));
    if (!data.stacked && total > 0) by('legend').append(make('span', {}, 'no call stacks were taken'));
    by('flamegraph').hidden = paths.count === 0;
    by('functions').hidden = rowCount === 0;
    const never = rowCount - functions.executed;
    by('never-label').hidden = never === 0;
    by('never-label').querySelector('span').textContent = `with ${plural(never, 'function')} that never executed`;
}

const nav = document.querySelector('nav');
for (const [id, name] of [['flamegraph', 'Call paths'], ['functions', 'Functions'], ['tasks', by('tasks-title').textContent],
    ['interrupts', 'Interrupts'], ['heap', 'Heap'], ['addresses', 'Addresses'], ['check', 'Cross-check'], ['run', 'The run']]) {
    if (by(id).hidden) continue;
    const go = (event) => {
        // The address is for what is chosen.
        event.preventDefault();
        by(id).scrollIntoView({ block: 'start' });
        by(id).querySelector('[tabindex="0"]')?.focus({ preventScroll: true });
    };
    nav.append(make('a', { href: `#${id}`, onclick: go }, name));
}
document.querySelector('.skip').addEventListener('click', (event) => {
    event.preventDefault();
    functionTable.table.focus();
});

// Light and dark, keys --------------------------------------------------------------------------------------------------------------------

const prefersDark = matchMedia('(prefers-color-scheme: dark)');
/** What was chosen by hand, for this page only. */
let theme = null;

function applyTheme() {
    document.documentElement.dataset.theme = theme ?? (prefersDark.matches ? 'dark' : 'light');
    by('theme').textContent = isDark() ? 'Light' : 'Dark';
    for (const swatch of document.querySelectorAll('#legend i')) {
        swatch.style.background = color(Number(swatch.dataset.kind), '', 0.4, isDark());
    }
    flames.themed();
    bins?.draw();
}
prefersDark.addEventListener('change', applyTheme);
by('theme').addEventListener('click', () => {
    theme = isDark() ? 'light' : 'dark';
    applyTheme();
});

const KEYS = [
    ['/', 'search: text, or /a regular expression/; Enter goes to the table'],
    ['g', 'to the call paths'],
    ['f', 'to the functions'],
    ['d', 'to the chosen function'],
    ['← ↑ → ↓', 'move in the call paths and in tables'],
    ['Enter', 'zooms to a frame; opens a row'],
    ['Escape', 'back: ends the search, closes the function, zooms out'],
    ['Tab', 'to the headers of a table, which sort it'],
    ['t', 'light or dark'],
    ['?', 'these keys'],
];
for (const [key, what] of KEYS) by('keys').querySelector('dl').append(make('dt', {}, key), make('dd', {}, what));
by('help').addEventListener('click', () => by('keys').showModal());

document.addEventListener('keydown', (event) => {
    if (event.defaultPrevented || event.ctrlKey || event.metaKey || event.altKey || by('keys').open) return;
    const inSearch = document.activeElement === by('search');
    if (event.key === 'Escape') {
        hideTip();
        if (inSearch || (state.q && document.activeElement === document.body)) {
            go({ q: '' }, true);
            by('search').blur();
        } else if (state.z !== null && document.activeElement === by('flames')) go({ z: null });
        else if (state.f !== null) leaveFunction();
        else if (state.z !== null) go({ z: null });
        else if (state.q) go({ q: '' }, true);
        event.preventDefault();
        return;
    }
    if (inSearch) return;
    const act = {
        '/': () => by('search').select(),
        '?': () => by('keys').showModal(),
        g: () => flames.focus(),
        f: () => functionTable.table.focus(),
        d: () => state.f !== null && open(state.f),
        t: () => by('theme').click(),
    }[event.key];
    if (!act) return;
    act();
    event.preventDefault();
});

// What is gone back to is in the same place; the browser's memory of another place would move it.
history.scrollRestoration = 'manual';
window.addEventListener('popstate', () => enter(readHash()));
window.addEventListener('resize', () => {
    functionTable.resize();
    for (const table of codeTables) table.resize();
});

functionTable.sorted = 1;
functionTable.head.children[1].setAttribute('aria-sort', 'descending');
// {zones}
applyTheme();
search();
flames.tell(-1);
enter(readHash());
})();
