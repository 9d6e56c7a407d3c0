// SPDX-License-Identifier: MIT OR Apache-2.0
// Draws the history.

const SVG = 'http://www.w3.org/2000/svg';

function draw(name, attributes = {}, ...children) {
    return fill(document.createElementNS(SVG, name), attributes, children);
}

const day = (commit) => commit.time_seconds === null ? '' :
    new Date(commit.time_seconds * 1000).toISOString().slice(0, 10);

const worse = (series, step) => (step.after > step.before) !== (series.limit?.is_floor ?? false);
const several = new Set(data.images.map((image) => image.suite)).size > 1;
const rows = data.images.flatMap((image) => {
    const failed = new Set(image.runs.filter((run) => !run.ended_well).map((run) => run.at));
    const title = several ? `${image.suite}: ${image.name}` : image.name;
    return image.series.map((series) => {
        const name = series.subject === '' ? series.metric : `${series.metric}(${JSON.stringify(series.subject)})`;
        const good = series.points.filter(([at]) => !failed.has(at));
        return { title, name, series, good, failed, text: `${title} ${name}`.toLowerCase() };
    });
});

/** Points of a line that keeps each number up to the commit that changes it. */
const stairs = (points) => points.flatMap(([at, value], index) =>
    index ? [[at, points[index - 1][1]], [at, value]] : [[at, value]]);

/** The values as a small line. */
function spark({ good }) {
    const [width, height] = [120, 18];
    const values = good.map(([, value]) => value);
    const [least, most] = range(values);
    const last = Math.max(1, data.commits.length - 1);
    const y = (value) => most === least ? height / 2 : height - 2 - (height - 4) * (value - least) / (most - least);
    const points = stairs(good).map(([at, value]) => `${(2 + (width - 4) * at / last).toFixed(1)},${y(value).toFixed(1)}`);
    return draw('svg', { width, height, 'aria-hidden': 'true' }, draw('polyline', { class: 'line', points: points.join(' ') }));
}

function range(values) {
    return values.reduce(([least, most], value) => [Math.min(least, value), Math.max(most, value)],
        [Infinity, -Infinity]);
}

/** Chart of one number: its values, its limit, and a mark at each step. */
function chart(row) {
    const { series, failed } = row;
    const width = Math.max(480, Math.min(1400, by('chart').clientWidth || 900));
    const [height, left, right, top, bottom] = [260, 110, 20, 14, 40];
    const shown = [...series.points.map(([, value]) => value), ...series.bounds.map(([, bound]) => bound)];
    let [least, most] = range(shown);
    // A line that never changes is drawn in the middle, with its own number beside it.
    const room = Math.max(1, Math.ceil((most - least) / 20));
    [least, most] = [Math.max(0, least - room), most + room];
    const last = Math.max(1, data.commits.length - 1);
    const x = (at) => data.commits.length === 1 ? (left + width - right) / 2 :
        left + (width - left - right) * at / last;
    const y = (value) => height - bottom - (height - top - bottom) * (value - least) / (most - least);
    const steps = new Map(series.steps.map((step) => [step.at, step]));
    const svg = draw('svg', { width, height, role: 'img', 'aria-label': `${row.title} ${row.name} by commit` });
    for (let tick = 0; tick <= 4; tick++) {
        const value = Math.round(least + (most - least) * tick / 4);
        svg.append(draw('line', { class: 'grid', x1: left, x2: width - right, y1: y(value), y2: y(value) }),
            draw('text', { x: left - 8, y: y(value) + 4, 'text-anchor': 'end' }, group(value)));
    }
    // As many commits are named as there is room for.
    const every = Math.ceil(data.commits.length / Math.max(1, Math.floor((width - left - right) / 110)));
    data.commits.forEach((commit, at) => {
        if (at % every) return;
        const anchor = at === 0 ? 'start' : at === last ? 'end' : 'middle';
        const name = commit.name.length > 14 ? `\u2026${commit.name.slice(-13)}` : commit.name;
        svg.append(draw('text', { x: x(at), y: height - 22, 'text-anchor': anchor }, name),
            draw('text', { x: x(at), y: height - 8, 'text-anchor': anchor }, day(commit)));
    });
    const line = (points) => points.map(([at, value]) => `${x(at).toFixed(1)},${y(value).toFixed(1)}`).join(' ');
    if (series.bounds.length === 1) {
        const [[, bound]] = series.bounds;
        svg.append(draw('line', { class: 'bound', x1: left, x2: width - right, y1: y(bound), y2: y(bound) }));
    }
    svg.append(draw('polyline', { class: 'bound', points: line(series.bounds) }));
    for (const at of steps.keys()) {
        svg.append(draw('line', { class: 'mark', x1: x(at), x2: x(at), y1: top, y2: height - bottom }));
    }
    svg.append(draw('polyline', { class: 'line', points: line(stairs(row.good)) }));
    for (const [at, value] of series.points) {
        const step = steps.get(at);
        const kind = failed.has(at) ? ' failed' : step ? ` step${worse(series, step) ? '' : ' down'}` : '';
        const dot = draw('circle', { class: `dot${kind}`, cx: x(at), cy: y(value), r: step ? 4 : 2.5 },
            draw('title', {}, describe(row, at, value)));
        svg.append(dot);
    }
    svg.addEventListener('pointermove', (event) => {
        const at = (event.offsetX - left) / (width - left - right) * last;
        const near = series.points.reduce((best, point) =>
            Math.abs(point[0] - at) < Math.abs(best[0] - at) ? point : best);
        by('at').textContent = describe(row, ...near);
    });
    return svg;
}

/** A value in words. */
function describe(row, at, value) {
    const commit = data.commits[at];
    const step = row.series.steps.find((known) => known.at === at);
    const bound = row.series.bounds.find(([where]) => where === at);
    return [
        `${commit.name} ${day(commit)}`.trim(),
        group(value),
        row.failed.has(at) ? 'did not end as expected: not compared' : '',
        step ? sentence(step) : '',
        bound ? `allowed ${row.series.limit?.is_floor ? 'at least' : 'at most'} ${group(bound[1])}` : '',
    ].filter(Boolean).join(' \u00b7 ');
}

/** A step in words. */
function sentence(step) {
    const between = step.at - step.since > 1
        ? ` (at one of the ${step.at - step.since} commits after ${data.commits[step.since].name})` : '';
    const causes = step.causes.length ? `: ${step.causes.join(', ')}` : '';
    return `${change(step.before, step.after)} from ${group(step.before)}${between}${causes}`;
}

let chosen = null;

function choose(row, scrolls = true) {
    chosen = row;
    by('chosen').hidden = false;
    by('chosen-title').textContent = `${row.title}: ${row.name}`;
    const { limit, steps } = row.series;
    by('chosen-numbers').textContent = [
        steps.length === 1 ? '1 step' : `${steps.length} steps`,
        limit ? `limit ${limit.text}, ${limit.is_floor ? 'at least' : 'at most'} ${group(limit.bound)}` +
            (limit.crossed ? ', crossed' : '') : 'no limit',
    ].join(' \u00b7 ');
    by('chart').replaceChildren(chart(row));
    by('at').textContent = '';
    show();
    if (scrolls) scrollTo({ top: 0 });
}

function show() {
    const word = by('search').value.toLowerCase();
    const found = rows.filter((row) => row.text.includes(word) && (!by('changed').checked || row.series.steps.length));
    by('numbers').replaceChildren(
        head('Image', 'Number', '#First', '#Last', '#Change', 'Trend', '#Steps', 'Last step', 'Limit'),
        ...found.slice(0, MOST_ROWS).map(line));
    const left = data.images.reduce((sum, image) => sum + image.left_out, 0);
    by('left-out').textContent = [
        found.length > MOST_ROWS ? `${group(found.length - MOST_ROWS)} more rows: search for them.` : '',
        left ? `${group(left)} numbers of functions that never changed, or that this page has no room for, are left out; --json has all.` : '',
    ].join(' ');
    const steps = found.flatMap((row) => row.series.steps.map((step) => [row, step]))
        .sort(([, one], [, other]) => other.at - one.at);
    by('steps').replaceChildren(head('Commit', 'Day', 'Image', 'Number', '#Change', '#From', '#To', 'Why'),
        ...steps.slice(0, MOST_ROWS).map(([row, step]) => {
            const commit = data.commits[step.at];
            const name = step.at - step.since > 1
                ? `${commit.name}, or one of the ${step.at - step.since - 1} before it` : commit.name;
            return make('tr', {}, cell(name), cell(day(commit)), cell(row.title), make('td', {}, button(row)),
                cell(change(step.before, step.after), `number ${worse(row.series, step) ? 'up' : 'down'}`),
                cell(group(step.before), 'number'), cell(group(step.after), 'number'), cell(step.causes.join(', ')));
        }));
    by('steps-more').textContent = steps.length === 0 ? 'No steps.' :
        steps.length > MOST_ROWS ? `${group(steps.length - MOST_ROWS)} older steps: search for them.` : '';
}

const button = (row) => make('button', { type: 'button', class: 'name', onclick: () => choose(row) }, row.name);

function line(row) {
    const { good, series } = row;
    const { limit, steps } = series;
    const [first, last] = [good.at(0)?.[1], good.at(-1)?.[1]];
    const step = steps.at(-1);
    const bound = limit ? `${limit.is_floor ? '\u2265' : '\u2264'} ${group(limit.bound)}${limit.crossed ? ', crossed' : ''}` : '';
    return make('tr', { class: row === chosen ? 'chosen' : '' }, cell(row.title), make('td', {}, button(row)),
        cell(first === undefined ? '-' : group(first), 'number'), cell(last === undefined ? '-' : group(last), 'number'),
        cell(first === undefined ? '' : change(first, last), 'number'), make('td', {}, spark(row)),
        cell(String(steps.length), 'number'),
        cell(step ? `${change(step.before, step.after)} at ${data.commits[step.at].name}` : ''),
        cell(bound, limit?.crossed ? 'up' : ''));
}

by('search').addEventListener('input', show);
by('changed').addEventListener('change', show);
addEventListener('resize', () => { if (chosen) by('chart').replaceChildren(chart(chosen)); });
const order = data.order === 'time' ? 'in the order of the commits\u2019 times' : 'in the order given';
by('headline').textContent = `${data.commits.length} commits, ${order}: ` +
    `${data.commits.at(0)?.name ?? ''} to ${data.commits.at(-1)?.name ?? ''}`;
if (data.notes.length) {
    by('notes').hidden = false;
    by('notes').querySelector('ul').append(...data.notes.map((note) => make('li', {}, note)));
}
show();
// The number that changed most recently is what one looks for.
const latest = rows.reduce((best, row) => {
    const at = row.series.steps.at(-1)?.at ?? -1;
    return at > (best?.series.steps.at(-1)?.at ?? -1) ? row : best;
}, rows[0]);
if (latest) choose(latest, false);
