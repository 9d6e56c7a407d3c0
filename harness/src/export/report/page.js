// SPDX-License-Identifier: MIT OR Apache-2.0
'use strict';
// Draws the page from its data, whose columns data.rs describes. Names come from the image and may contain anything, so
// they are only ever written as text.
(() => {

const data = JSON.parse(document.getElementById('data').textContent);
const ROW_PX = 20;
/** Number of rows that exist above and below the visible ones. */
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

/** Text with visible substitutes: control characters become their pictures; other invisible characters, and those that change the
 * direction of text, become their numbers (`is_command` in text/printable.rs). */
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

/** A button that opens the function of a row. */
function functionLink(row) {
    return make('button', { class: 'name', type: 'button', onclick: () => open(row) }, functionName(row));
}

/** Name of a caller or callee: `end` is its row or, if negative, the string -1 - `end`. */
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

// {table}
// State of the page, kept in its address for Back ----------------------------------------------------------------------

/** Names for the address, since rows have other numbers in the next run: of namesakes `read` and `read~2`. */
function addressNames(names) {
    const counts = new Map();
    const given = new Set();
    return names.map((name) => {
        let count = (counts.get(name) ?? 0) + 1;
        let address = count === 1 ? name : `${name}~${count}`;
        // A function may be called `read~2`, too.
        while (given.has(address)) {
            count += 1;
            address = `${name}~${count}`;
        }
        counts.set(name, count);
        given.add(address);
        return address;
    });
}
const functionAddresses = addressNames(names);
const taskAddresses = addressNames(data.tasks.map((task) => task.name));

/** The chosen function's row (f), the zoomed path (z), the search (q), the view of the call paths (v), and the only task (t) or
 * slices (s) shown. */
let state = { f: null, z: null, q: '', v: '', t: null, s: null };

function readHash() {
    const fields = new URLSearchParams(location.hash.slice(1));
    const zoomed = fields.get('z');
    const named = (name, addresses) => {
        const at = addresses.indexOf(fields.get(name));
        return at < 0 ? null : at;
    };
    const view = VIEWS.some(([view]) => view === fields.get('v')) ? fields.get('v') : '';
    return {
        f: named('f', functionAddresses),
        z: zoomed !== null && /^\d{1,9}$/.test(zoomed) ? Number(zoomed) : null,
        q: fields.get('q') ?? '',
        v: view,
        t: named('t', taskAddresses),
        s: sliceRange(fields.get('s')),
    };
}

function hashOf({ f, z, q, v, t, s }) {
    const fields = new URLSearchParams();
    if (f !== null) fields.set('f', functionAddresses[f]);
    if (z !== null) fields.set('z', z);
    if (q) fields.set('q', q);
    if (v) fields.set('v', v);
    if (t !== null) fields.set('t', taskAddresses[t]);
    if (s !== null) fields.set('s', s.join('-'));
    return `#${fields}`;
}

/** Changes some fields of the state; all others stay. */
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
    const isOther = last.t !== next.t || String(last.s) !== String(next.s);
    if (isOther) rescope();
    if (isOther || last.v !== next.v || (next.v === 'both' && last.f !== next.f)) flames.changed();
    else if (last.z !== next.z) flames.zoomed();
    if (isOther || last.q !== next.q) search();
    if (isOther || last.f !== next.f) showFunction();
}

/** Opens a function beside the table or picture in which it was chosen. */
function open(row) {
    if (row === null || row === undefined || row < 0) return;
    go({ f: row });
    by('function-title').focus({ preventScroll: true });
}

// {trees}
// {flames}
/** Shows a few words at the pointer, over a picture that takes no clicks. */
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

/** Inclusive instructions of a function's calls; null: calls were not followed. */
function perCall(row) {
    const calls = data.per_call;
    return calls && calls.min[row] >= 0 ? { min: calls.min[row], mean: calls.mean[row], max: calls.max[row] } : null;
}

/** Fewest and most cycles of a function in words; empty: they are proved. */
function cyclesBetween(row) {
    return functions.cycles_between ? `between ${functions.cycles_between[row].map(group).join(' and ')}` : '';
}

/** Cycles by which those of a function may be wrong, in the direction in which that is more. */
function cyclesDoubt(row) {
    const [least, most] = functions.cycles_between[row];
    return Math.max(functions.cycles[row] - least, most - functions.cycles[row]);
}

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
        { name: 'Function', width: 'minmax(9rem, 3fr)', class: 'mono', cell: functionName, key: (row) => names[row], title: functionName },
        { name: 'Self', width: '6rem', number: true, cell: (row) => group(scope.self[row]), key: (row) => scope.self[row], hint: 'Instructions of its code, with what is inlined into it. Exact.' },
        { name: 'Self %', width: '7rem', number: true, cell: (row) => percent(scope.self[row], scope.total), key: (row) => scope.self[row], share: (row) => (scope.total > 0 ? scope.self[row] / scope.total : 0) },
        ...(functions.cycles ? [{ name: 'Cycles', width: '6rem', number: true, cell: (row) => group(functions.cycles[row]), key: (row) => functions.cycles[row], title: (row) => cyclesBetween(row), hint: `Cycles of its code, with what is inlined into it, in the whole run. ${functions.cycles_between ? 'Most likely: point at one for the fewest and most.' : 'Exact.'}`, whole: true }] : []),
        ...(functions.cycles_between ? [{ name: '±', width: '4.4rem', number: true, cell: (row) => percent(cyclesDoubt(row), functions.cycles[row]), key: cyclesDoubt, hint: 'Part of the cycles by which they may be wrong, in the direction in which that is more.', whole: true }] : []),
        { name: data.exact ? 'Inclusive' : 'Inclusive ≈', width: '6.6rem', number: true, cell: (row) => (data.stacked ? group(scope.inclusive[row]) : '–'), key: (row) => scope.inclusive[row], hint: aboutInclusive },
        { name: 'Calls', width: '5.4rem', number: true, cell: (row) => (functions.is_function[row] ? group(functions.calls[row]) : '–'), key: (row) => functions.calls[row], hint: 'Entries from outside, in the whole run. Exact.', whole: true },
        ...(data.per_call ? [['Min', 'min', 'shortest'], ['Mean', 'mean', 'mean'], ['Max', 'max', 'longest']].map(([name, which, word]) => ({
            name,
            width: '5.4rem',
            number: true,
            cell: (row) => (perCall(row) ? group(perCall(row)[which]) : '–'),
            key: (row) => perCall(row)?.[which] ?? -1,
            hint: `Inclusive instructions of its ${word} call, in the whole run. Exact.`,
            whole: true,
        })) : []),
        { name: 'Samples', width: '4.8rem', number: true, cell: (row) => group(scope.samples[row]), key: (row) => scope.samples[row] },
        { name: 'z', width: '3rem', number: true, cell: (row) => functions.z[row].toFixed(1), key: (row) => Math.abs(functions.z[row]), hint: 'How far its samples are from its exact share, in standard deviations. Beyond 5, a loop keeps step with the sampling period. Of the whole run.', whole: true },
        { name: 'Defined at', width: 'minmax(6rem, 2fr)', class: 'dim', cell: (row) => (functions.file[row] < 0 ? '' : fileName(place(row))), key: place, title: place },
    ],
});
by('functions-bar').append(copyButton(() => functionTable.markdown()));

// Search ---------------------------------------------------------------------------------------------------------------------

/** A test of names; null: the search is empty; undefined: the regular expression is invalid. */
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
        by('matched').textContent = 'not a regular expression';
        return;
    }
    const insns = flames.mark(test);
    by('matched').textContent = test ? `${percent(insns, scope.total)} matched` : '';
    const shown = [];
    const last = by('never').checked && !scope.part ? rowCount : functions.executed;
    // With a task or slices chosen, only the functions that executed there.
    for (let row = 0; row < last; row++) if (!scope.part || scope.inclusive[row] > 0 || scope.self[row] > 0) shown.push(row);
    const all = shown.length;
    const rows = test ? shown.filter((row) => test(names[row])) : shown;
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

// {function}
// {tasks}
// Heap ------------------------------------------------------------------------------------------------------------------------------

/** Draws numbers of the heap over time as lines in one picture; each line has the name of its style. */
function heapChart({ at_insns: times }, what, lines) {
    const [width, height] = [1000, 120];
    const svg = (tag, properties, ...children) => {
        const element = document.createElementNS('http://www.w3.org/2000/svg', tag);
        for (const [name, value] of Object.entries(properties)) element.setAttribute(name, value);
        element.append(...children);
        return element;
    };
    const highest = Math.max(1, ...lines.flatMap(([values]) => values));
    const x = (insns) => ((width * insns) / Math.max(1, data.total_insns)).toFixed(1);
    const y = (bytes) => (height - (height * bytes) / highest).toFixed(1);
    // A number keeps its value until the next event.
    const steps = (values) => times.map((time, n) => `${n ? `H${x(time)}V` : `M${x(time)},`}${y(values[n])}`).join('') + `H${width}`;
    const line = (values, name) => svg('path', { class: name, d: steps(values), fill: 'none', 'vector-effect': 'non-scaling-stroke' });
    const label = `${what} over ${group(data.total_insns)} instructions, at most ${group(highest)}`;
    const picture = svg('svg', { class: 'heap-chart', viewBox: `0 0 ${width} ${height}`, preserveAspectRatio: 'none', role: 'img', 'aria-label': label },
        ...lines.map(([values, name]) => line(values, name)));
    // The picture is stretched, so the numbers of its axes are beside it.
    const axis = (name, ...ends) => make('div', { class: `axis ${name}`, 'aria-hidden': 'true' }, ...ends.map((end) => make('span', {}, end)));
    return make('div', { class: 'heap-axes' }, axis('up', group(highest), '0'), picture, axis('along', '0', plural(data.total_insns, 'instruction')));
}

if (data.peripherals) {
    const { summary, polls, rows, more } = data.peripherals;
    by('peripherals').hidden = false;
    for (const text of [summary, ...polls]) by('peripherals-lines').append(make('p', {}, visible(text)));
    plainTable(by('peripherals').querySelector('.plain'), ['Register, by function', 'Reads', 'Writes', 'First', 'Last', 'Polls', 'In polls', 'Share'],
        rows.map(([name, by, [reads, writes, first, last, count, insns]]) => [
            make('div', { class: name ? 'register' : 'register by' }, make('code', {}, visible(name)), ...(by ? [make('span', { class: 'quiet' }, ' by '), make('code', {}, visible(by))] : [])),
            ...[reads, writes, first, last].map(group), ...(count ? [group(count), group(insns), percent(insns, data.total_insns)] : ['', '', ''])]));
    if (more) by('peripherals').append(make('p', { class: 'quiet' }, `and ${plural(more, 'register')} more; harness chip show lists all`));
}

if (data.heap) {
    const { heap } = data;
    by('heap').hidden = false;
    for (const text of [...heap.lines, ...heap.wrong]) by('heap-lines').append(make('p', {}, visible(text)));
    if (heap.at_insns.length) {
        const says = (text) => make('p', { class: 'quiet' }, text);
        by('heap-time').append(
            heapChart(heap, 'Bytes of heap', [[heap.high_water, 'high-water'], [heap.most, 'most'], [heap.held, 'held']]),
            says('Held over time; thin: the most between two points; grey: the high water of the arena.'),
            heapChart(heap, 'Bytes of the largest free block', [[heap.largest_free, 'held']]),
            says(`The largest free block over time, at most ${plural(Math.max(...heap.largest_free), 'byte')}.`),
            heapChart(heap, 'Blocks', [[heap.blocks, 'held']]),
            says(`Blocks over time, at most ${group(Math.max(...heap.blocks))} at these points.`));
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
    /** Maximum number of regions drawn: those with the most instructions. */
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
        // The text has a line of its own, where it covers no strip.
        strip.canvas.addEventListener('mousemove', (event) => {
            const index = hit(strip, event);
            const { region } = strip;
            by('bin').textContent = index < 0 ? '' : [
                nameOf(region, index) || 'no function',
                hex(region.start, region.bin[index] * bytes),
                `${plural(region.insns[index], 'instruction')}, ${percent(region.insns[index], data.total_insns)}`,
                plural(region.samples[index], 'sample'),
            ].join(' · ');
        });
        strip.canvas.addEventListener('mouseleave', () => { by('bin').textContent = ''; });
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

// {compare}
// {console}
// Cross-check, facts, and the headline ------------------------------------------------------------------------------------------------

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

/** Shows the headline: the function that executed most. */
function showHeadline() {
    const headline = by('summary').querySelector('.headline');
    headline.replaceChildren();
    const { total } = scope;
    if (total === 0) {
        headline.append(scope.part ? `No sample was taken in ${scope.part.noun}.` : 'No instruction was executed in the measuring window.');
        return;
    }
    const executed = [];
    for (let row = 0; row < functions.executed; row++) if (!scope.part || scope.self[row] > 0) executed.push(row);
    if (scope.part) executed.sort((one, other) => scope.self[other] - scope.self[one]);
    const top = executed.slice(0, 3).filter((row) => scope.self[row] > 0);
    headline.append(make('b', {}, group(total)), ` ${total === 1 ? 'instruction' : 'instructions'}: `);
    top.forEach((row, index) => {
        const between = index === 0 ? '' : index < top.length - 1 ? ', ' : top.length > 2 ? ', and ' : ' and ';
        headline.append(between, make('b', {}, percent(scope.self[row], total)), ' in ', functionLink(row));
    });
    const rest = executed.length - top.length;
    headline.append(rest > 0 ? `; the rest in ${plural(rest, 'other function')}.` : '.');
    const idle = scope.part ? [] : data.tasks.filter((task) => task.idle);
    const parts = [];
    if (idle.length) {
        const insns = idle.reduce((sum, task) => sum + task.insns, 0);
        parts.push(`${percent(insns, total)} idle`);
    }
    const interrupts = [...scope.interrupts.values()].reduce((sum, [insns]) => sum + insns, 0);
    if (data.interrupts.length) parts.push(`${percent(interrupts, total)} in interrupts${data.exact ? '' : ' (by samples)'}`);
    if (data.unnamed_insns > 0 && !scope.part) parts.push(`${percent(data.unnamed_insns, total)} in code without a name`);
    if (parts.length) headline.append(` ${parts.join(', ')}.`);
}

/** Shows the legend of the call paths' colours. */
function showLegend() {
    const dark = isDark();
    const entry = (fill, text) => make('span', {}, make('i', { style: `background: ${fill}` }), text);
    const legend = by('legend');
    legend.replaceChildren();
    if (byChange) {
        legend.append(...[[0, 1, 'new'], [1, 3, 'grew'], [3, 1, 'shrank'], [1, 1, 'the same']].map(([before, now, text]) => entry(colorBetween(before, now, dark), text)));
        return;
    }
    for (const [kind, text] of [[FUNCTION, 'function, the warmer the more self instructions'], [INLINED, 'inlined'], [TASK, 'task'], [IRQ, 'interrupt'], [OTHER, 'not known']]) {
        if (members.kind.includes(kind)) legend.append(entry(color(kind, '', 0.4, dark), text));
    }
    if (data.merged_paths > 0) legend.append(make('span', {}, `${group(data.merged_paths)} narrow paths are drawn together`));
    if (!data.stacked && data.total_insns > 0) legend.append(make('span', {}, 'no call stacks were taken'));
}

{
    by('image').textContent = visible(data.image);
    by('image').title = visible(data.image);
    const [first] = data.check.lines;
    const verdict = make('p', { class: 'verdict' });
    if (first) {
        const more = data.check.lines.length + data.check.in_target.length - 1;
        verdict.append(make('b', { class: data.check.clean ? 'good' : 'bad' }, data.check.clean ? '✓ ' : '! '), visible(first),
            more > 0 ? ` (${plural(more, 'more line')} below)` : '');
    }
    if (data.trouble) by('summary').append(make('p', { class: 'trouble' }, visible(data.trouble)));
    by('summary').append(make('p', { class: 'headline' }), ...[data.cycles, data.time].filter(Boolean).map((line) => make('p', { class: 'verdict' }, visible(line))), verdict);
    by('flamegraph').hidden = paths.count === 0;
    by('functions').hidden = rowCount === 0;
    const never = rowCount - functions.executed;
    by('never-label').hidden = never === 0;
    by('never-label').querySelector('span').textContent = `with ${plural(never, 'function')} that never executed`;
}

if (data.saved) {
    const { name, bytes, gzip } = data.saved;
    const link = make('button', { type: 'button', id: 'download', onclick: async () => {
        const packed = Uint8Array.from(atob(gzip), (character) => character.charCodeAt(0));
        const stream = new Blob([packed]).stream().pipeThrough(new DecompressionStream('gzip'));
        const address = URL.createObjectURL(await new Response(stream).blob());
        make('a', { href: address, download: name }).click();
        setTimeout(() => URL.revokeObjectURL(address), 60_000);
    } }, `Download the profile (${group(Math.ceil(bytes / 1000))} kB)`);
    by('run-bar').append(link, make('span', { class: 'quiet' }, 'for every harness command: top, annotate, callers, diff, export'));
}

const nav = document.querySelector('nav');
for (const [id, name] of [['compare', 'Comparison'], ['flamegraph', 'Call paths'], ['functions', 'Functions'], ['tasks', by('tasks-title').textContent],
    ['interrupts', 'Interrupts'], ['heap', 'Heap'], ['peripherals', 'Peripherals'], ['addresses', 'Addresses'], ['console', 'Console'], ['check', 'Cross-check'], ['run', 'The run']]) {
    if (by(id).hidden) continue;
    const go = (event) => {
        // The address is only for the state, so the link must not change it.
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

// The chosen function begins below the header, whose number of lines may change.
new ResizeObserver(() => {
    document.documentElement.style.setProperty('--header', `${document.querySelector('header').offsetHeight}px`);
}).observe(document.querySelector('header'));

// Light and dark, keys --------------------------------------------------------------------------------------------------------------------

const prefersDark = matchMedia('(prefers-color-scheme: dark)');
/** The theme that the user chose, for this page only. */
let theme = null;

function applyTheme() {
    document.documentElement.dataset.theme = theme ?? (prefersDark.matches ? 'dark' : 'light');
    by('theme').textContent = isDark() ? 'Light' : 'Dark';
    showLegend();
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
    ['Escape', 'back: ends the search, closes the function, zooms out, shows all tasks'],
    ['v', 'the next view of the call paths: top down, bottom up, sandwich'],
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
        else if (state.t !== null || state.s !== null) go({ t: null, s: null });
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
        v: () => flames.next(),
    }[event.key];
    if (!act) return;
    act();
    event.preventDefault();
});

// Going back does not move the page: without this, the browser would scroll to the position that it remembers.
history.scrollRestoration = 'manual';
window.addEventListener('popstate', () => enter(readHash()));
window.addEventListener('resize', () => {
    functionTable.resize();
    for (const table of codeTables) table.resize();
});

functionTable.sorted = 1;
functionTable.heads.children[1].setAttribute('aria-sort', 'descending');
// {zones}
// {timeline}
rescope();
flames.changed();
applyTheme();
search();
enter(readHash());
})();
