// SPDX-License-Identifier: MIT OR Apache-2.0
// Draws a suite's result: groups of images, a table with the failed images first, and an image's details below its row.

const plural = (count, noun) => `${group(count)} ${noun}${count === 1 ? '' : 's'}`;
const images = data.images.map((image) => ({
    ...image,
    text: [image.name, ...image.tags, ...image.failures.map((failure) => failure.message)].join('\n').toLowerCase(),
    // The most relative change first; without a number before, there is none.
    relative: image.before ? image.insns / image.before - 1 : 0,
    changed: image.before !== null && image.insns !== null && image.before !== image.insns,
}));
const failed = images.filter((image) => !image.passed);

/** Groups that are not empty: their name, and whether an image is one of them. */
const groups = [
    ['all', () => true],
    ['failed', (image) => !image.passed],
    ...data.kinds.map((kind) => [kind, (image) => image.failures.some((failure) => failure.kind === kind)]),
    ['changed', (image) => image.changed],
    ['with warnings', (image) => image.warnings.length > 0],
    ...[...new Set(images.flatMap((image) => image.tags))].sort()
        .map((tag) => [`tag ${tag}`, (image) => image.tags.includes(tag)]),
].map(([name, has]) => ({ name, has, count: images.filter(has).length })).filter(({ name, count }) => count || name === 'all');

const COLUMNS = [
    ['', (one, other) => one.passed - other.passed],
    ['Image', (one, other) => (one.name < other.name ? -1 : one.name > other.name ? 1 : 0)],
    ['#Instructions', (one, other) => (other.insns ?? -1) - (one.insns ?? -1)],
    ['#Change', (one, other) => Math.abs(other.relative) - Math.abs(one.relative)],
    ['What happened', null],
];
let chosen = failed.length ? 'failed' : 'all';
let order = 0;
const opened = new Set(failed.length === 1 ? [failed[0]] : []);

/** The first failure, or what accounts for a change. */
function happened(image) {
    const [first, ...others] = image.failures;
    if (first) return first.message.split('\n')[0] + (others.length ? ` (and ${others.length} more)` : '');
    return image.changed ? image.why : image.end;
}

function details(image) {
    const parts = [];
    if (image.failures.length) {
        parts.push(make('ul', {}, ...image.failures.map(({ kind, message, place }) =>
            make('li', {}, `${kind}: ${message}`, place ? make('span', { class: 'quiet' }, ` at ${place}`) : ''))));
    }
    for (const [what, how] of image.remedies) parts.push(make('p', {}, `${what} `, make('code', {}, how)));
    if (image.why) parts.push(make('p', {}, image.why));
    if (image.functions.length) {
        parts.push(make('table', {}, head('Function', '#Own before', '#Own after', '#Change'),
            ...image.functions.map(({ name, before, after }) => make('tr', {}, cell(name),
                cell(before === null ? '-' : group(before), 'number'), cell(after === null ? '-' : group(after), 'number'),
                cell(change(before ?? 0, after ?? 0), `number ${(after ?? 0) > (before ?? 0) ? 'up' : 'down'}`)))));
    }
    for (const line of [...image.warnings.map((warning) => `warning: ${warning}`), ...image.messages]) {
        parts.push(make('p', { class: 'quiet' }, line));
    }
    if (image.console.length) parts.push(make('p', { class: 'quiet' }, 'The last lines printed:'), make('pre', {}, image.console.join('\n')));
    parts.push(make('p', { class: 'quiet' }, image.end));
    return make('tr', { class: 'more' }, make('td', { colspan: COLUMNS.length }, ...parts));
}

function line(image) {
    const isOpen = opened.has(image);
    const toggle = () => {
        if (!opened.delete(image)) opened.add(image);
        show();
        [...by('images').querySelectorAll('button.name')].find((button) => button.textContent === image.name)?.focus();
    };
    const row = make('tr', {}, cell(image.passed ? '\u2713' : '\u2717', `sign ${image.passed ? 'down' : 'up'}`),
        make('td', {}, make('button', { type: 'button', class: 'name', 'aria-expanded': isOpen, onclick: toggle }, image.name)),
        cell(image.insns === null ? '-' : group(image.insns), 'number'),
        cell(image.changed ? change(image.before, image.insns) : '', `number ${image.relative > 0 ? 'up' : 'down'}`),
        cell(happened(image)));
    return isOpen ? [row, details(image)] : [row];
}

function show() {
    by('groups').replaceChildren(...groups.map(({ name, count }) => make('button', {
        type: 'button',
        'aria-pressed': name === chosen,
        onclick: () => {
            chosen = name;
            show();
        },
    }, name, make('span', { class: 'count' }, group(count)))));
    const word = by('search').value.toLowerCase();
    const { has } = groups.find(({ name }) => name === chosen);
    const found = images.filter((image) => has(image) && image.text.includes(word));
    const compare = COLUMNS[order][1];
    // Stable: equal images stay in the order of the suite.
    found.sort((one, other) => compare(one, other));
    const heads = COLUMNS.map(([name, compare], column) => make('th', {
        scope: 'col',
        class: name.startsWith('#') ? 'number' : '',
        'aria-sort': column === order ? (name.startsWith('#') ? 'descending' : 'ascending') : 'none',
    }, compare ? make('button', {
        type: 'button',
        'aria-label': column === 0 ? 'Failed first' : `Sort by ${name.replace('#', '')}`,
        onclick: () => {
            order = column;
            show();
        },
    }, column === 0 ? '\u2717' : name.replace('#', '')) : name));
    by('images').replaceChildren(make('tr', {}, ...heads), ...found.slice(0, MOST_ROWS).flatMap(line));
    by('more').textContent = found.length === 0 ? 'No image of this group has that.' :
        found.length > MOST_ROWS ? `${group(found.length - MOST_ROWS)} more rows: search for them.` : '';
}

by('search').addEventListener('input', show);
const passed = images.length - failed.length;
by('verdict').textContent = `${data.suite}: ${group(passed)} of ${plural(images.length, 'image')} passed`;
by('verdict').className = failed.length || data.findings.length ? 'failed' : '';
document.title = by('verdict').textContent;
by('headline').textContent = [
    `${group(images.reduce((sum, image) => sum + (image.insns ?? 0), 0))} instructions`,
    data.revision ? `revision ${data.revision}` : '',
    data.baseline ? `compared with the baseline ${data.baseline}` : '',
    data.left_out ? `${plural(data.left_out, 'image')} not chosen` : '',
].filter(Boolean).join(' \u00b7 ');
if (data.findings.length) {
    by('suite').hidden = false;
    by('suite').querySelector('ul').append(...data.findings.map((finding) => make('li', {}, finding)));
}
show();
