// SPDX-License-Identifier: MIT OR Apache-2.0
// Colours: a frame's kind and its heat ----------------------------------------------------------------------------------

const isDark = () => document.documentElement.dataset.theme === 'dark';

/** Small variation of a name's colour, which tells neighbours apart: FNV-1a of 64 bits, then mixed, as for flamegraph.svg. */
function dither(name) {
    let hash = 0xcbf29ce484222325n;
    for (const byte of new TextEncoder().encode(name)) hash = BigInt.asUintN(64, (hash ^ BigInt(byte)) * 0x100000001b3n);
    hash = BigInt.asUintN(64, (hash ^ (hash >> 33n)) * 0xff51afd7ed558ccdn);
    return Number(hash >> 40n) / (1 << 24) - 0.5;
}

/** Colour of a frame, as in flamegraph.svg: hotter functions are warmer, inlined ones green, tasks blue, interrupts purple. */
function color(kind, name, share, dark) {
    const heat = Math.sqrt(share);
    const some = dither(kind === INLINED ? `${name} (inlined)` : name);
    let [hue, saturation, lightness] = {
        [TASK]: [214 + 44 * some, 0.54, 0.74 + 0.12 * some],
        [IRQ]: [285 + 24 * some, 0.45, 0.76 + 0.05 * some],
        [FUNCTION]: [48 - 34 * heat + 10 * some, 0.62 + 0.3 * heat, 0.8 - 0.18 * heat + 0.07 * some * (1 - heat)],
        [INLINED]: [150 + 40 * some, 0.3 + 0.15 * heat, 0.8 - 0.1 * heat],
        [OTHER]: [60, 0.02, 0.8],
    }[kind];
    // On black the hottest function is the brightest, but white text on it stays readable.
    // Green is brighter to the eye than the others.
    if (dark) [saturation, lightness] = [saturation * (0.6 + 0.2 * heat), 0.24 + (kind === INLINED ? 0.05 : 0.1) * heat + 0.04 * some];
    return `hsl(${hue.toFixed(1)} ${(100 * saturation).toFixed(1)}% ${(100 * lightness).toFixed(1)}%)`;
}

// Call paths -------------------------------------------------------------------------------------------------------------

/** A frame's self instructions as a share of the hottest function's. */
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

/** Whether colours show the change of paths instead of their heat. */
let byChange = false;

const VIEWS = [
    ['', 'Top down', 'Call paths, outermost on top: inclusive instructions of each'],
    ['up', 'Bottom up', 'Functions by self instructions, their callers below them'],
    ['both', 'Sandwich', 'The chosen function, its callers above and what it calls below'],
];

const flames = (() => {
    const box = by('flames');
    const canvas = by('flames-canvas');
    const pen = canvas.getContext('2d');
    const FRAME_PX = 18;
    const FONT = '11px ui-monospace, "SF Mono", Menlo, Consolas, "DejaVu Sans Mono", monospace';
    let letter = 6.6;
    let colors = null;
    let matches = null;
    /** The tree that is drawn. */
    let tree = paths;
    /** The path that the keyboard has selected; -1: all. */
    let at = -1;
    let scheduled = false;

    const view = () => (state.z === null
        ? { start: 0, width: Math.max(1, tree.total) }
        : { start: tree.start[state.z], width: Math.max(1, tree.width[state.z]) });

    function refresh() {
        if (scheduled) return;
        scheduled = true;
        requestAnimationFrame(() => {
            scheduled = false;
            draw();
        });
    }

    /** Makes the box as high as the frames that are wide enough to be drawn. */
    function fit() {
        const { start, width: all } = view();
        const least = (0.3 * all) / Math.max(1, box.clientWidth);
        let [lowest, highest] = [0, 0];
        for (let path = 0; path < tree.count;) {
            const x = tree.start[path] - start;
            if (tree.width[path] < least || x >= all || x + tree.width[path] <= 0) path = tree.end[path];
            else {
                lowest = Math.max(lowest, tree.level[path]);
                highest = Math.min(highest, tree.level[path]);
                path++;
            }
        }
        tree.highest = highest;
        const levels = lowest - highest + 1;
        by('flames-size').style.height = `${levels * FRAME_PX}px`;
        box.style.height = `${levels * FRAME_PX + 2}px`;
    }

    const yOf = (level) => (level - tree.highest) * FRAME_PX;

    function draw() {
        fit();
        const dark = isDark();
        const style = getComputedStyle(document.documentElement);
        const ink = style.getPropertyValue('--ink');
        const marked = style.getPropertyValue('--marked');
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
            const y = yOf(level) - top;
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
        if (tree.hasAll) put(0, width, 0, dark ? '#3a3d40' : '#e8e8e8', scope.part ? `all of ${scope.part.noun}` : 'all', false, at < 0);
        const lowest = (top + height) / FRAME_PX + tree.highest;
        for (let path = 0; path < tree.count;) {
            const x = (tree.start[path] - start) * scale;
            const w = tree.width[path] * scale;
            const level = tree.level[path];
            if (w < 0.3 || x + w <= 0.01 || x >= width - 0.01 || level > lowest) {
                path = tree.end[path];
                continue;
            }
            const member = tree.member[path];
            const changed = byChange && tree === paths;
            const fill = matches && matches[member] ? marked : changed ? changeColor(path, tree.width[path], dark) : colors[member];
            put(x, w, level, fill, memberNames[member], state.z !== null && path < state.z, path === at);
            path++;
        }
    }

    /** The path at a point of the box; null: there is no path, -1: all. */
    function hit(event) {
        const bounds = box.getBoundingClientRect();
        const level = tree.highest + Math.floor((event.clientY - bounds.top - box.clientTop + box.scrollTop) / FRAME_PX);
        const { start, width } = view();
        const insns = start + ((event.clientX - bounds.left - box.clientLeft) / box.clientWidth) * width;
        if (level <= 0 && tree.hasAll) return level === 0 ? -1 : null;
        for (let path = 0; path < tree.count;) {
            const inside = insns >= tree.start[path] && insns < tree.start[path] + tree.width[path];
            if (!inside) path = tree.end[path];
            else if (tree.level[path] === level) return path;
            else path++;
        }
        return null;
    }

    const nameOf = (path) => (path < 0 ? (scope.part ? `all of ${scope.part.noun}` : 'all') : memberNames[tree.member[path]]);
    const numbersOf = (path) => {
        const [insns, samples, self] = path < 0
            ? [tree.total, scope.part ? tree.taken.reduce((sum, taken, of) => (tree.parent[of] < 0 ? sum + taken : sum), 0) : data.total_samples, 0]
            : [tree.width[path], tree.taken[path], tree.self[path]];
        const parts = [`${plural(insns, 'instruction')}, ${percent(insns, scope.total)}`];
        if (self > 0 && self < insns) parts.push(`${group(self)} of them self`);
        const interrupted = path < 0 ? 0 : tree.interrupted[path] ?? 0;
        if (interrupted > 0) parts.push(`${group(interrupted)} in interrupts meanwhile`);
        parts.push(plural(samples, 'sample'));
        if (path >= 0 && tree === paths && data.compare?.paths) {
            const change = changeOf(path, insns);
            if (change !== null) parts.push(change);
        }
        return parts.join(' · ');
    };

    /** Describes a frame in the line above the picture, where the text covers no other frame. */
    function tell(path) {
        const row = path < 0 ? -1 : rowOfPath(tree, path);
        const parts = [make('b', {}, nameOf(path)), ` ${path < 0 ? '' : `(${KINDS[members.kind[tree.member[path]]]}) `}`,
            numbersOf(path)];
        if (row >= 0) {
            parts.push(make('button', { type: 'button', onclick: () => open(row) }, 'Open the function'));
        }
        by('frame').replaceChildren(...parts);
    }

    function move(path) {
        at = path;
        const y = yOf(path < 0 ? 0 : tree.level[path]);
        if (y < box.scrollTop) box.scrollTop = y;
        else if (y + FRAME_PX > box.scrollTop + box.clientHeight) box.scrollTop = y + FRAME_PX - box.clientHeight;
        tell(path);
        refresh();
    }

    function children(path, side = 0) {
        const list = [];
        const last = path < 0 ? tree.count : tree.end[path];
        for (let inner = path + 1; inner < last; inner = tree.end[inner]) {
            if (side === 0 || Math.sign(tree.level[inner]) === side) list.push(inner);
        }
        return list;
    }

    /** Effect of a click: the frame gets the picture's width, or becomes the middle of the sandwich, and its function is opened. */
    function zoom(path) {
        const row = path < 0 ? -1 : rowOfPath(tree, path);
        if (state.v === 'both') {
            if (row >= 0) go({ f: row });
            return;
        }
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
        tell(path ?? at);
    });
    box.addEventListener('mouseleave', () => tell(at));
    box.addEventListener('keydown', (event) => {
        if (event.ctrlKey || event.metaKey || event.altKey) return;
        const level = at < 0 ? 0 : tree.level[at];
        const beside = (step) => {
            if (at < 0 || level === 0) return at;
            const all = children(tree.parent[at], tree.hasAll ? 0 : Math.sign(level));
            return all[Math.max(0, Math.min(all.length - 1, all.indexOf(at) + step))];
        };
        const outwards = () => (at < 0 ? -1 : Math.max(tree.hasAll ? -1 : 0, tree.parent[at]));
        const inwards = (side) => {
            const inner = children(at, tree.hasAll ? 0 : side);
            return inner.length ? inner.reduce((one, other) => (tree.width[other] > tree.width[one] ? other : one)) : at;
        };
        // In a sandwich, callers are above the middle, so up and down change places there.
        if (event.key === 'ArrowDown') move(level < 0 ? outwards() : inwards(1));
        else if (event.key === 'ArrowUp') move(level > 0 || tree.hasAll ? outwards() : inwards(-1));
        else if (event.key === 'ArrowLeft') move(beside(-1));
        else if (event.key === 'ArrowRight') move(beside(1));
        else if (event.key === 'Home') move(tree.hasAll ? -1 : 0);
        else if (event.key === 'Enter') zoom(at);
        else if (event.key === 'd') open(at < 0 ? -1 : rowOfPath(tree, at));
        else return;
        event.preventDefault();
    });
    by('reset').addEventListener('click', () => {
        go({ z: null });
        box.focus();
    });
    const buttons = VIEWS.map(([view, name, what]) => make('button', {
        type: 'button',
        title: what,
        'aria-pressed': 'false',
        // The sandwich shows the first function of the table until the user chooses one.
        onclick: () => go({ v: view, z: null, ...(view === 'both' && state.f === null ? { f: functionTable.order[0] ?? 0 } : {}) }),
    }, name));
    by('views').append(...buttons);

    return {
        /** Draws the tree of the chosen view. */
        changed() {
            tree = state.v === 'up' ? bottomUp(scope.tree) : state.v === 'both' && state.f !== null ? sandwich(scope.tree, state.f) : scope.tree;
            buttons.forEach((button, index) => button.setAttribute('aria-pressed', String(VIEWS[index][0] === state.v)));
            if (state.z !== null && state.z >= tree.count) state.z = null;
            box.scrollTop = 0;
            const none = tree.count === 0 && state.v === 'both';
            by('flames-none').hidden = !none;
            box.hidden = none;
            this.zoomed();
            // Scroll to the middle, which may be far below the first callers.
            if (!tree.hasAll && tree.count) {
                fit();
                box.scrollTop = Math.max(0, yOf(0) - box.clientHeight / 2);
            }
        },
        zoomed() {
            by('reset').hidden = state.z === null;
            at = state.z ?? (tree.hasAll || tree.count === 0 ? -1 : 0);
            tell(at);
            refresh();
        },
        themed() {
            colors = null;
            refresh();
        },
        /** Marks the frames whose names pass a test, and returns the instructions in and below them. */
        mark(test) {
            matches = test && Uint8Array.from(memberNames, (name) => (test(name) ? 1 : 0));
            const all = scope.tree;
            let insns = 0;
            for (let path = 0; matches && path < all.count;) {
                if (matches[all.member[path]]) {
                    insns += all.width[path];
                    path = all.end[path];
                } else path++;
            }
            refresh();
            return insns;
        },
        focus() {
            box.focus();
            tell(at);
        },
        next() {
            buttons[(VIEWS.findIndex(([view]) => view === state.v) + 1) % VIEWS.length].click();
        },
    };
})();

