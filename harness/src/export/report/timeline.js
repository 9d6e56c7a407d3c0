// SPDX-License-Identifier: MIT OR Apache-2.0

// Timeline ------------------------------------------------------------------------------------------------------------------

if (data.timeline) {
    const { timeline } = data;
    const [ROW, LABEL] = [18, 150];
    const end = Math.max(1, timeline.end_insns);

    /** A row's stretches as columns. */
    function decode({ count, stretches, valued }) {
        const bytes = atob(stretches);
        let at = 0;
        // Not by shifts, which have 32 bits.
        const number = () => {
            let [value, scale] = [0, 1];
            for (;;) {
                const byte = bytes.charCodeAt(at++);
                value += (byte & 0x7f) * scale;
                if (byte < 0x80) return value;
                scale *= 128;
            }
        };
        const row = { starts: new Float64Array(count), ends: new Float64Array(count), names: new Int32Array(count), counts: new Float64Array(count), values: valued ? new Float64Array(count) : null };
        let last = 0;
        for (let index = 0; index < count; index++) {
            row.starts[index] = last + number();
            row.ends[index] = last = row.starts[index] + number();
            row.counts[index] = number();
            row.names[index] = number() - 1;
            if (valued && row.counts[index] === 1) {
                const zigzag = number();
                row.values[index] = zigzag % 2 ? -(zigzag + 1) / 2 : zigzag / 2;
            }
        }
        return row;
    }

    const rows = timeline.rows.map((row) => ({ ...row, ...decode(row) }));
    const canvas = make('canvas', { tabindex: '0', role: 'application', 'aria-roledescription': 'timeline', 'aria-label': 'What happened over instructions. Arrow keys move, plus and minus zoom, 0 shows all.',
        style: `width:100%;height:${rows.length * ROW + 18}px;display:block;cursor:grab;touch-action:none` });
    const range = make('span', { class: 'quiet', 'aria-live': 'polite' });
    const button = (text, label, onclick) => make('button', { type: 'button', 'aria-label': label, onclick }, text);
    const notes = [timeline.exact ? 'every event' : 'from samples; --timeline records every event'];
    if (timeline.merged_insns) notes.push(`short stretches within ${plural(timeline.merged_insns, 'instruction')} are drawn as one`);
    if (timeline.more) notes.push(`${plural(timeline.more, 'row')} left out`);
    const section = make('section', { id: 'timeline', class: 'whole', 'aria-labelledby': 'timeline-title' },
        make('div', { class: 'bar' }, make('h2', { id: 'timeline-title' }, 'Timeline'), make('span', { class: 'quiet' }, notes.join('; ')),
            make('span', {}, button('−', 'Zoom out', () => zoom(2)), ' ', button('+', 'Zoom in', () => zoom(0.5)), ' ', button('All', 'Show all', () => show(0, end)))),
        canvas, make('p', {}, range));
    by('functions').before(section);
    nav.insertBefore(make('a', { href: '#timeline', onclick: (event) => {
        event.preventDefault();
        section.scrollIntoView({ block: 'start' });
    } }, 'Timeline'), [...nav.children].find((link) => link.getAttribute('href') === '#functions') ?? null);

    let view = [0, end];
    let asked = 0;
    const label = () => Math.min(LABEL, canvas.clientWidth / 3);
    const width = () => Math.max(1, canvas.clientWidth - label());
    const insnsAt = (x) => view[0] + ((x - label()) / width()) * (view[1] - view[0]);
    const time = (insns) => {
        if (timeline.shift === null) return `${Math.round(insns).toLocaleString('en-US')} instructions`;
        const ns = insns * 2 ** timeline.shift;
        const [unit, scale] = ns >= 1e9 ? ['s', 1e9] : ns >= 1e6 ? ['ms', 1e6] : ns >= 1e3 ? ['µs', 1e3] : ['ns', 1];
        return `${(ns / scale).toFixed(3).replace(/\.?0+$/, '')} ${unit}`;
    };
    /** Index of the first stretch that does not end before a number of instructions. */
    function first(ends, insns) {
        let [low, high] = [0, ends.length];
        while (low < high) {
            const middle = (low + high) >> 1;
            if (ends[middle] < insns) low = middle + 1;
            else high = middle;
        }
        return low;
    }
    // By the golden angle, in order of the rows: names that follow each other differ in hue, however alike they are spelled.
    const hueOf = new Map();
    const hue = (name) => hueOf.get(name) ?? 0;
    for (const { kind, label: own, names: stretches } of rows) {
        for (const name of kind === 'task' ? [own] : new Set([...stretches].filter((name) => name >= 0).map((name) => timeline.names[name] ?? ''))) {
            if (!hueOf.has(name)) hueOf.set(name, (hueOf.size * 137.508) % 360);
        }
    }
    function fill(name, { kind, label: own }, dark) {
        if (name < 0) return dark ? '#777' : '#aaa';
        if (kind === 'interrupt') return dark ? '#d0704a' : '#e07b50';
        // All stretches of a task have the task's colour.
        const of = hue(kind === 'task' ? own : timeline.names[name] ?? '');
        return dark ? `hsl(${of} 40% 45%)` : `hsl(${of} 60% 68%)`;
    }
    function draw() {
        asked = 0;
        const ratio = window.devicePixelRatio || 1;
        [canvas.width, canvas.height] = [Math.round(canvas.clientWidth * ratio), Math.round(canvas.clientHeight * ratio)];
        const pen = canvas.getContext('2d');
        pen.scale(ratio, ratio);
        const [dark, left, wide] = [isDark(), label(), width()];
        const text = dark ? '#ddd' : '#222';
        pen.font = '11px system-ui, sans-serif';
        pen.textBaseline = 'middle';
        const perPixel = (view[1] - view[0]) / wide;
        const x = (insns) => left + (insns - view[0]) / perPixel;
        rows.forEach((row, index) => {
            const y = index * ROW;
            pen.fillStyle = dark ? '#8883' : '#8881';
            if (index % 2) pen.fillRect(0, y, left + wide, ROW);
            pen.fillStyle = text;
            pen.save();
            pen.beginPath();
            pen.rect(0, y, left - 6, ROW);
            pen.clip();
            pen.fillText(visible(row.label), row.kind === 'within' ? 14 : 2, y + ROW / 2);
            pen.restore();
            pen.save();
            pen.beginPath();
            pen.rect(left, y, wide, ROW);
            pen.clip();
            for (let at = first(row.ends, view[0]); at < row.starts.length && row.starts[at] <= view[1];) {
                const [from, to] = [Math.min(left + wide - 1, Math.max(left, x(row.starts[at]))), Math.min(left + wide, x(row.ends[at]))];
                pen.fillStyle = fill(row.names[at], row, dark);
                pen.fillRect(from, y + 2, Math.max(1, to - from), ROW - 4);
                if (to - from > 30 && row.names[at] >= 0 && row.names[at] < timeline.names.length) {
                    pen.fillStyle = dark ? '#fff' : '#000';
                    pen.save();
                    pen.beginPath();
                    pen.rect(from, y, to - from - 3, ROW);
                    pen.clip();
                    pen.fillText(visible(timeline.names[row.names[at]]), from + 3, y + ROW / 2);
                    pen.restore();
                }
                // The next stretches that end within this pixel would be hidden by this one: skip them.
                at = to - from < 1 ? Math.max(at + 1, first(row.ends, insnsAt(Math.floor(from) + 1))) : at + 1;
            }
            pen.restore();
        });
        pen.fillStyle = text;
        for (let tick = 0; tick <= 4; tick++) {
            const at = view[0] + ((view[1] - view[0]) * tick) / 4;
            pen.textAlign = tick === 0 ? 'left' : tick === 4 ? 'right' : 'center';
            pen.fillText(group(Math.round(at)), left + (wide * tick) / 4, rows.length * ROW + 9);
        }
        pen.textAlign = 'left';
    }
    function show(from, to) {
        const span = Math.min(end, Math.max(10, to - from));
        const start = Math.min(Math.max(0, from), end - span);
        view = [start, start + span];
        range.textContent = `instructions ${group(Math.round(view[0]))} to ${group(Math.round(view[1]))}, ${time(span)} of the firmware's time; drag moves, Ctrl and the wheel zoom`;
        if (!asked) asked = requestAnimationFrame(draw);
    }
    function zoom(factor, around = (view[0] + view[1]) / 2) {
        show(around - (around - view[0]) * factor, around + (view[1] - around) * factor);
    }
    canvas.addEventListener('wheel', (event) => {
        if (!event.ctrlKey && !event.metaKey && Math.abs(event.deltaX) <= Math.abs(event.deltaY)) return;
        event.preventDefault();
        if (event.ctrlKey || event.metaKey) return zoom(event.deltaY > 0 ? 1.3 : 1 / 1.3, insnsAt(event.offsetX));
        const move = (event.deltaX / width()) * (view[1] - view[0]);
        return show(view[0] + move, view[1] + move);
    }, { passive: false });
    let grabbed = null;
    canvas.addEventListener('pointerdown', (event) => {
        grabbed = [event.offsetX, ...view];
        canvas.setPointerCapture(event.pointerId);
    });
    canvas.addEventListener('pointerup', () => { grabbed = null; });
    canvas.addEventListener('dblclick', (event) => zoom(0.25, insnsAt(event.offsetX)));
    canvas.addEventListener('pointermove', (event) => {
        if (grabbed) {
            const move = ((grabbed[0] - event.offsetX) / width()) * (grabbed[2] - grabbed[1]);
            hideTip();
            return show(grabbed[1] + move, grabbed[2] + move);
        }
        const row = rows[Math.floor(event.offsetY / ROW)];
        const perPixel = (view[1] - view[0]) / width();
        const insns = insnsAt(event.offsetX);
        const at = row && event.offsetX >= label() ? first(row.ends, insns - 2 * perPixel) : -1;
        if (!row || at < 0 || at >= row.starts.length || row.starts[at] > insns + 2 * perPixel) return hideTip();
        const length = row.ends[at] - row.starts[at];
        const own = row.names[at] < 0 ? '' : visible(timeline.names[row.names[at]] ?? row.label);
        const name = row.counts[at] > 1 ? `${group(row.counts[at])} short ones ${own}` : own;
        const lines = [`at ${group(row.starts[at])}, ${time(row.starts[at])}`];
        if (length) lines.push(`${plural(length, 'instruction')}, ${time(length)}`);
        if (row.values && row.counts[at] === 1) lines.push(`value ${group(row.values[at])}`);
        return showTip(event, name, lines);
    });
    canvas.addEventListener('pointerleave', hideTip);
    canvas.addEventListener('keydown', (event) => {
        const step = (view[1] - view[0]) / 8;
        const does = { ArrowLeft: () => show(view[0] - step, view[1] - step), ArrowRight: () => show(view[0] + step, view[1] + step),
            '+': () => zoom(0.5), '=': () => zoom(0.5), '-': () => zoom(2), 0: () => show(0, end) }[event.key];
        if (!does || event.ctrlKey || event.metaKey) return;
        event.preventDefault();
        does();
    });
    new ResizeObserver(() => show(...view)).observe(canvas);
    new MutationObserver(() => show(...view)).observe(document.documentElement, { attributes: true });
    show(0, end);
}
