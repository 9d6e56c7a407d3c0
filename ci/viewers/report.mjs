// SPDX-License-Identifier: MIT OR Apache-2.0
// Proves that the report (`harness report`) answers to clicks and keys, shows the profile's own numbers, and asks
// nobody for anything: opened from its file, without a network.
//
//   report.mjs look PAGE EXPECTED     everything, on a page that has it; EXPECTED is a JSON file of numbers
//   report.mjs compared PAGE EXPECTED the comparison with another run
//   report.mjs slices PAGE            names and axes of the heat maps
//   report.mjs names PAGE NAMES       names that hurt are text; NAMES is a JSON file of functions' names
//   report.mjs large PAGE             a page of many functions keeps its document small
//   report.mjs timeline PAGE          its rows are drawn, zoom, move and say what is under the pointer
//   report.mjs read PAGE              the page opens; prints what it says
import { readFile } from 'node:fs/promises';
import { pathToFileURL } from 'node:url';
import { main, open, promise } from './browser.mjs';

const number = (text) => Number(text.replace(/,/g, ''));
const same = (seen, expected, what) => promise(
    JSON.stringify(seen) === JSON.stringify(expected),
    `${what}: ${JSON.stringify(seen)}, not ${JSON.stringify(expected)}`,
);

/** The cells of a table's rows that exist. */
const cells = (page, table) => page.$$eval(`${table} .row[data-at]`, (rows) => rows.map((row) => [...row.children].map((cell) => cell.textContent)));
const header = (page, table, name) => page.locator(`${table} [role=columnheader]`).filter({ hasText: name }).first();
const sorting = (page, table) => page.$$eval(`${table} [aria-sort]`, (heads) => heads.map((head) => [head.textContent, head.getAttribute('aria-sort')]));
/** All pixels as one number: whether a picture changed. */
const picture = (page, canvas) => page.$eval(canvas, async (element) => {
    await new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)));
    const { data } = element.getContext('2d').getImageData(0, 0, element.width, element.height);
    let sum = 0;
    for (let at = 0; at < data.length; at++) sum = (Math.imul(sum, 31) + data[at]) | 0;
    return sum;
});
/** As the page has it; the browser's driver hears of it later. */
const hash = (page) => page.evaluate(() => location.hash);
const visible = (page, id) => page.$eval(`#${id}`, (element) => !element.hidden);
const title = (page) => page.textContent('#function-title');
const FUNCTIONS = '#functions-table';

async function opened(file, look, options = {}) {
    let requests = 0;
    return open('about:blank', async (page, complaints) => {
        await page.context().setOffline(true);
        page.on('request', (request) => {
            requests += 1;
            if (requests > 1) complaints.push(`asked for ${request.url().slice(0, 200)}`);
        });
        await page.goto(pathToFileURL(file).href);
        promise(requests === 1, `the page made ${requests - 1} requests beside itself`);
        return look(page, complaints);
    }, { viewport: { width: 1400, height: 900 }, ...options });
}

async function table(page, expected) {
    const before = await cells(page, FUNCTIONS);
    same(before[0].slice(0, 2), [expected.hottest.name, expected.hottest.self], 'the first row');
    same(await sorting(page, FUNCTIONS), [['Self', 'descending']], 'sorted by');
    await header(page, FUNCTIONS, 'Calls').getByRole('button').click();
    same(await sorting(page, FUNCTIONS), [['Calls', 'descending']], 'sorted by');
    same((await cells(page, FUNCTIONS))[0][0], expected.most_called, 'the most called function');
    await header(page, FUNCTIONS, 'Calls').getByRole('button').click();
    const calls = (await cells(page, FUNCTIONS)).map((row) => number(row[4]));
    promise(calls.every((count, at) => at === 0 || !(count < calls[at - 1])), `not ascending: ${calls}`);
    await header(page, FUNCTIONS, 'Self').getByRole('button').click();

    await page.fill('#search', expected.hottest.name.slice(0, 5).toUpperCase());
    const found = await cells(page, FUNCTIONS);
    promise(found.length > 0 && found.length < before.length, `${found.length} rows of ${before.length} are found`);
    promise(found.every(([name]) => name.toLowerCase().includes(expected.hottest.name.slice(0, 5).toLowerCase())), 'a row was not searched for');
    await page.fill('#search', `/^${expected.hottest.name}$/`);
    same(await page.textContent('#matched'), `${expected.hottest.share_below} matched`, 'the matched share');
    same((await cells(page, FUNCTIONS)).map(([name]) => name), [expected.hottest.name], 'found by a regular expression');
    await page.fill('#search', '/(/');
    same(await page.textContent('#matched'), 'not a regular expression', 'a broken expression');
    await page.fill('#search', '');
    same((await cells(page, FUNCTIONS)).length, before.length, 'rows after the search');
}

async function detail(page, { name, self, calls, callers, lines, insns }) {
    await page.locator(`${FUNCTIONS} .row`).filter({ hasText: new RegExp(`^${name}\\d`) }).first().click();
    same(await title(page), name, 'the chosen function');
    const numbers = await page.textContent('#function-numbers');
    promise(numbers.startsWith(`${self} self (`) && numbers.includes(` ${calls} call`), `numbers: ${numbers}`);
    const shown = (await cells(page, '#callers')).map((row) => [row[0], row[1]]).sort();
    same(shown, callers, `callers of ${name}`);
    // Listings may be longer than what is in sight.
    const all = async (table, columns) => {
        const seen = new Map();
        const body = page.locator(`${table} .body`);
        for (let top = 0, height = 1; top < height; top += 200) {
            height = await body.evaluate((element, to) => { element.scrollTop = to; return element.scrollHeight; }, top);
            await page.waitForTimeout(30);
            for (const row of await page.$$eval(`${table} .row[data-at]`, (rows) => rows.map((row) => [Number(row.dataset.at), [...row.children].map((cell) => cell.textContent)]))) seen.set(...row);
        }
        return [...seen].sort(([one], [other]) => one - other).map(([, row]) => columns(row)).filter(Boolean);
    };
    same(await all('#code', (row) => (row.length > 1 ? [row[2], number(row[0])] : null)), insns, `instructions of ${name}`);
    same(await all('#source', (row) => (row.length > 1 && row[0] ? [Number(row[3]), number(row[0])] : null)), lines, `source lines of ${name}`);
    // A line marks its instructions.
    await page.locator('#source .row').filter({ hasText: /^[\d,.]+%/ }).first().click();
    promise(await page.locator('#code .row.same').count() > 0, 'a chosen line marks no instruction');
    // To the caller, and back.
    const caller = callers.find(([caller]) => !caller.startsWith('['));
    await page.locator('#callers .row').filter({ hasText: caller[0] }).first().click();
    same(await title(page), caller[0], 'the caller');
    await page.goBack();
    same(await title(page), name, 'back from the caller');
    await page.goBack();
    promise(!(await visible(page, 'function')), 'back from the function');
}

async function flames(page, expected) {
    await page.evaluate(() => scrollTo(0, 0));
    const all = await picture(page, '#flames-canvas');
    // Drawn twice: nothing moves any more.
    await picture(page, '#flames-canvas');
    const box = await page.locator('#flames').boundingBox();
    // The second level: a task where there are some.
    await page.mouse.move(box.x + box.width * 0.25, box.y + 27);
    // What it is stands above the picture, and nothing lies over it.
    promise(/[\d,]+ instructions, \d+\.\d\d%/.test(await page.textContent('#frame')), `at a frame: ${await page.textContent('#frame')}`);
    promise(!(await visible(page, 'tip')), 'a tip covers the frames');
    // The same colour as in flamegraph.svg, above the frame's text.
    const [task] = (await page.textContent('#frame')).split(' (');
    const pixel = await page.$eval('#flames-canvas', (canvas, x) => {
        const ratio = canvas.width / canvas.clientWidth;
        return [...canvas.getContext('2d').getImageData(x * ratio, 20 * ratio, 1, 1).data.slice(0, 3)];
    }, box.width * 0.25);
    const fill = (expected.fills[task] ?? '').match(/\d+/g)?.map(Number) ?? [];
    promise(fill.length === 3 && fill.every((part, at) => Math.abs(part - pixel[at]) <= 3), `${task}: ${pixel} here, ${fill} in the picture`);
    await page.mouse.click(box.x + box.width * 0.25, box.y + 27);
    promise(/[#&]z=\d+/.test(await hash(page)), `zoomed, and the address is ${await hash(page)}`);
    const zoomed = await picture(page, '#flames-canvas');
    promise(zoomed !== all, 'zooming changes nothing');
    await page.click('#reset');
    if (await visible(page, 'function')) await page.click('#close');
    await page.mouse.move(5, 5);
    await page.evaluate(() => document.activeElement.blur());
    same(await picture(page, '#flames-canvas'), all, 'the picture after zooming out');
    await page.fill('#search', expected.hottest.name);
    promise(await picture(page, '#flames-canvas') !== all, 'a match is not marked');
    await page.fill('#search', '');
    // Everything of it, by name and exact count.
    await page.locator('#flames').focus();
    promise((await frame(page)).startsWith(`all ${expected.total} instructions, 100.00%`), `the root: ${await frame(page)}`);
    await page.keyboard.press('ArrowDown');
    promise((await frame(page)).startsWith(`${expected.widest.name} (${expected.widest.kind}) ${expected.widest.insns} instructions`), `the widest: ${await frame(page)}`);
    await page.evaluate(() => document.activeElement.blur());
}

/** Opens a function by a frame: it is to be seen beside the frames, at once. */
async function beside(page) {
    await page.evaluate(() => document.getElementById('flamegraph').scrollIntoView({ block: 'start' }));
    const box = await page.locator('#flames').boundingBox();
    // The widest task's code, two frames below it.
    await page.mouse.click(box.x + box.width * 0.3, box.y + 18 * 3 + 9);
    const seen = await page.evaluate(() => ['flames', 'function-title', 'function-numbers', 'source-title'].map((id) => {
        const { left, right, top, bottom } = document.getElementById(id).getBoundingClientRect();
        return { id, inSight: top >= 0 && bottom <= innerHeight && left >= 0 && right <= innerWidth, left, right };
    }));
    promise(seen.every(({ inSight }) => inSight), `a click on a frame shows its function: ${JSON.stringify(seen)}`);
    promise(seen[0].right <= seen[1].left, `the function lies over the frames: ${JSON.stringify(seen)}`);
    await page.click('#close');
    await page.click('#reset');
}

const view = (page, name) => page.locator('#views').getByRole('button', { name, exact: true }).click();
const frame = (page) => page.textContent('#frame');

/** Other ways to look at the same paths. */
async function views(page, expected) {
    await view(page, 'Bottom up');
    await page.locator('#flames').focus();
    await page.keyboard.press('Home');
    await page.keyboard.press('ArrowDown');
    promise((await frame(page)).startsWith(`${expected.hottest.name} (function) ${expected.hottest.self} instructions`), `bottom up begins with ${await frame(page)}`);
    promise(/[#&]v=up/.test(await hash(page)), 'the view is not in the address');
    await page.locator(`${FUNCTIONS} .row`).first().click();
    await page.locator('#function-tools').getByRole('button', { name: 'Sandwich' }).click();
    await page.locator('#flames').focus();
    await page.keyboard.press('Home');
    promise((await frame(page)).startsWith(`${expected.hottest.name} (function) ${expected.hottest.below} instructions`), `the sandwich is around ${await frame(page)}, not ${expected.hottest.below}`);
    await page.keyboard.press('ArrowUp');
    promise((await frame(page)).startsWith(`${expected.hottest.caller} (`), `above it is ${await frame(page)}, not ${expected.hottest.caller}`);
    await page.keyboard.press('Enter');
    same(await title(page), expected.hottest.caller, 'the middle of the sandwich after a click on the caller');
    await view(page, 'Top down');
    await page.click('#close');
}

/** One task alone. */
async function scope(page, { name, insns, share, hottest, self, share_below }) {
    const all = (await cells(page, FUNCTIONS)).length;
    await page.locator('#tasks').getByRole('button', { name, exact: true }).click();
    promise((await page.textContent('#filter')).startsWith(`Only task ${name}: ${insns} instructions`), `the filter: ${await page.textContent('#filter')}`);
    promise((await page.textContent('#filter')).includes(share), `the filter: ${await page.textContent('#filter')}, not ${share}`);
    const rows = await cells(page, FUNCTIONS);
    same(rows[0].slice(0, 3), [hottest, self, share_below], 'the first function of the task');
    promise(rows.length <= all && rows.length > 0, 'functions of the task');
    // Whatever does not follow the filter says so, sections and columns.
    const silent = await page.$$eval('main > section', (sections) => sections
        .filter((section) => !section.hidden && !['summary', 'flamegraph', 'functions', 'interrupts'].includes(section.id))
        .filter((section) => !getComputedStyle(section.querySelector('h2'), '::after').content.includes('whole run'))
        .map((section) => section.id));
    same(silent, [], 'sections that do not follow the filter, and do not say so');
    const ofRun = await page.$$eval('#functions-table .head [role=columnheader]', (heads) => heads
        .filter((head) => getComputedStyle(head, '::after').content.includes('run')).map((head) => head.textContent.trim()));
    same(ofRun.slice(0, 1).concat(ofRun.slice(-1)), ['Calls', 'z'], 'columns of the whole run');
    await page.locator('#flames').focus();
    await page.keyboard.press('Home');
    promise((await frame(page)).startsWith(`all of the task ${insns} instructions, 100.00%`), `the picture: ${await frame(page)}`);
    await page.locator(`${FUNCTIONS} .row`).first().click();
    promise((await page.textContent('#function-numbers')).startsWith(`${self} self (${share_below} of the task)`), await page.textContent('#function-numbers'));
    await page.click('#close');
    await page.locator('#filter').getByRole('button').click();
    promise(!(await visible(page, 'filter')), 'the filter stays');
    same((await cells(page, FUNCTIONS)).length, all, 'functions of all tasks');
}

/** What leaves the page: a table for a text, and the profile for the tool. */
async function taken(page, expected) {
    await page.evaluate(() => {
        window.copied = [];
        Object.defineProperty(navigator, 'clipboard', { value: { writeText: async (text) => { window.copied.push(text); } }, configurable: true });
    });
    await page.locator('#functions-bar').getByRole('button', { name: 'Copy as Markdown' }).click();
    await page.locator('#tasks').getByRole('button', { name: 'Copy as Markdown' }).click();
    const [functions, tasks] = await page.evaluate(() => window.copied);
    const escaped = (name) => name.replace(/[\\`*_{}[\]<>|~#]/g, '\\$&');
    const [head, line, first] = functions.split('\n');
    promise(head.startsWith('| Function | Self | Self % |') && line.startsWith('| --- | ---: |'), `the head: ${head}\n${line}`);
    promise(first.startsWith(`| ${escaped(expected.hottest.name)} | ${expected.hottest.self} | `), `the first line: ${first}`);
    const [, , task] = tasks.split('\n');
    promise(task.startsWith(`| ${escaped(expected.tasks[0][0])} | ${expected.tasks[0][1]} | `), `the first task: ${task}`);
    const [download] = await Promise.all([page.waitForEvent('download'), page.click('#download')]);
    const [got, wanted] = [await readFile(await download.path()), await readFile(expected.saved)];
    promise(got.equals(wanted), `the profile that is downloaded has ${got.length} bytes, not the ${wanted.length} of ${expected.saved}`);
}

/** Texts whose contrast is less than 4.5 to 1 (WCAG 2.2, 1.4.3): those of elements, and those on the canvas of frames. */
const faint = (page) => page.evaluate(() => {
    const pen = document.createElement('canvas').getContext('2d', { willReadFrequently: true });
    const rgba = (color) => {
        pen.clearRect(0, 0, 1, 1);
        pen.fillStyle = color;
        pen.fillRect(0, 0, 1, 1);
        const [r, g, b, a] = pen.getImageData(0, 0, 1, 1).data;
        return [r, g, b, a / 255];
    };
    const over = ([r, g, b, a], below) => [r, g, b].map((channel, at) => channel * a + below[at] * (1 - a));
    const luminance = (color) => {
        const [r, g, b] = color.map((channel) => (channel / 255 <= 0.04045 ? channel / 255 / 12.92 : ((channel / 255 + 0.055) / 1.055) ** 2.4));
        return 0.2126 * r + 0.7152 * g + 0.0722 * b;
    };
    const contrast = (one, other) => {
        const [dark, light] = [luminance(one), luminance(other)].sort((a, b) => a - b);
        return (light + 0.05) / (dark + 0.05);
    };
    const found = [];
    let texts = 0;
    const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
    while (walker.nextNode()) {
        const element = walker.currentNode.parentElement;
        if (!walker.currentNode.data.trim() || !element.checkVisibility() || element.closest('script, style, noscript, dialog:not([open])')) continue;
        texts += 1;
        const around = [];
        for (let outer = element; outer; outer = outer.parentElement) around.unshift(getComputedStyle(outer));
        const ground = around.reduce((below, style) => over(rgba(style.backgroundColor), below), [255, 255, 255]);
        const style = getComputedStyle(element);
        const ink = over(rgba(style.color), ground).map((channel, at) => channel * Number(style.opacity) + ground[at] * (1 - Number(style.opacity)));
        const ratio = contrast(ink, ground);
        if (ratio < 4.5) found.push(`${ratio.toFixed(2)}: ${walker.currentNode.data.trim().slice(0, 40)} in ${element.tagName}.${element.className}#${element.closest('[id]')?.id}`);
    }
    // Frames with a text: what most pixels are is the frame, and what is farthest from it is the text.
    const canvas = document.getElementById('flames-canvas');
    const context = canvas.getContext('2d');
    let frames = 0;
    for (let y = 0; y + 18 <= canvas.height; y += 18) {
        const { data } = context.getImageData(0, y, canvas.width, 17);
        const at = (x, row) => [...data.slice(4 * (row * canvas.width + x), 4 * (row * canvas.width + x) + 3)];
        // The first row of pixels has no text: its runs of one colour are the frames.
        for (let x = 0; x < canvas.width;) {
            const fill = at(x, 0);
            let end = x;
            while (end < canvas.width && at(end, 0).every((channel, index) => channel === fill[index])) end += 1;
            if (end - x > 40 && data[4 * x + 3] === 255) {
                let most = 1;
                for (let row = 3; row < 15; row++) for (let inner = x; inner < end; inner++) most = Math.max(most, contrast(at(inner, row), fill));
                frames += 1;
                if (most < 4.5) found.push(`${most.toFixed(2)}: the text of the frame at ${x},${y} on rgb(${fill})`);
            }
            x = Math.max(end, x + 1);
        }
    }
    return { texts, frames, found };
});

async function contrasts(page, expected) {
    await page.locator(`${FUNCTIONS} .row`).first().click();
    await page.locator('#source .row').filter({ hasText: /^[\d,.]+%?/ }).first().click();
    for (const scheme of ['light', 'dark']) {
        await page.emulateMedia({ colorScheme: scheme });
        await page.waitForFunction((scheme) => document.documentElement.dataset.theme === scheme, scheme);
        for (const query of ['', expected.hottest.name.slice(0, 4)]) {
            await page.fill('#search', query);
            await picture(page, '#flames-canvas');
            const { texts, frames, found } = await faint(page);
            promise(texts > 100 && frames > 5, `only ${texts} texts and ${frames} frames were looked at`);
            promise(found.length === 0, `${scheme}, searched for "${query}": too faint:\n${[...new Set(found)].join('\n')}`);
        }
        await page.fill('#search', '');
    }
    await page.emulateMedia({ colorScheme: 'light' });
    await page.click('#close');
}

/** What is cut off at the right, or cannot be reached, on a telephone. */
async function phone(file, expected) {
    await opened(file, async (page) => {
        const cut = () => page.evaluate(() => [...document.querySelectorAll('body *')].filter((element) => {
            if (!element.checkVisibility() || element.closest('.offscreen, .skip, canvas, svg')) return false;
            // What scrolls can be reached.
            for (let outer = element.parentElement; outer && outer !== document.body; outer = outer.parentElement) {
                if (['auto', 'scroll'].includes(getComputedStyle(outer).overflowX) || outer.classList.contains('head')) return false;
            }
            const { left, right, width } = element.getBoundingClientRect();
            return width > 0 && (left < -0.5 || right > innerWidth + 0.5);
        }).map((element) => `${element.tagName}#${element.id}.${element.className}`));
        const reachable = async (id) => {
            const seen = await page.$eval(id, (element) => {
                const { left, top, width, height } = element.getBoundingClientRect();
                return element.contains(document.elementFromPoint(left + width / 2, top + height / 2));
            });
            promise(seen, `${id} cannot be reached`);
        };
        same(await cut(), [], 'cut off');
        same(await page.evaluate(() => document.documentElement.scrollWidth), 390, 'the width of the page');
        for (const id of ['#help', '#theme', '#search']) await reachable(id);
        await page.click('#help');
        same(await cut(), [], 'cut off with the keys');
        await page.keyboard.press('Escape');
        await page.locator(`${FUNCTIONS} .row`).first().click();
        same(await title(page), expected.hottest.name, 'the chosen function');
        same(await cut(), [], 'cut off with a function');
        await reachable('#close');
        await reachable('#function-title');
        await page.click('#close');
        // The columns that have no room are reached by scrolling, below their heads.
        await page.$eval(`${FUNCTIONS} .body`, (body) => { body.scrollLeft = 200; });
        await page.waitForTimeout(50);
        const [scrolled, head] = await page.evaluate((table) => [document.querySelector(`${table} .body`).scrollLeft, document.querySelector(`${table} .head`).scrollLeft], FUNCTIONS);
        promise(scrolled > 50 && scrolled === head, `the table is scrolled by ${scrolled}, its head by ${head}`);
        return {};
    }, { viewport: { width: 390, height: 844 } });
}

async function keyboard(page, expected) {
    await page.keyboard.press('/');
    await page.keyboard.type(expected.hottest.name);
    await page.keyboard.press('Enter');
    await page.keyboard.press('Enter');
    same(await title(page), expected.hottest.name, 'opened by keys');
    same(await page.evaluate(() => document.activeElement.id), 'function-title', 'the focus');
    await page.keyboard.press('Escape');
    promise(!(await visible(page, 'function')), 'Escape closes the function');
    await page.keyboard.press('/');
    await page.keyboard.press('Escape');
    same(await page.inputValue('#search'), '', 'Escape ends the search');
    await page.keyboard.press('f');
    await page.keyboard.press('ArrowDown');
    await page.keyboard.press('ArrowDown');
    await page.keyboard.press('Enter');
    const third = (await cells(page, FUNCTIONS))[2][0];
    const second = (await cells(page, FUNCTIONS))[1][0];
    promise([second, third].includes(await title(page)), `arrows lead to ${await title(page)}`);
    await page.keyboard.press('Escape');
    await page.keyboard.press('g');
    await page.keyboard.press('ArrowDown');
    await page.keyboard.press('Enter');
    promise(/[#&]z=\d+/.test(await hash(page)), 'Enter does not zoom');
    await page.keyboard.press('Escape');
    promise(!/[#&]z=\d+/.test(await hash(page)), 'Escape does not zoom out');
    await page.keyboard.press('?');
    promise(await page.$eval('#keys', (dialog) => dialog.open), '? shows no keys');
    await page.keyboard.press('Escape');
    promise(!(await page.$eval('#keys', (dialog) => dialog.open)), 'Escape leaves the keys open');
    const outline = await page.evaluate(() => {
        document.getElementById('theme').focus();
        return getComputedStyle(document.activeElement).outlineStyle;
    });
    promise(outline !== 'none', 'the focus is not to be seen');
}

async function schemes(page) {
    const paper = () => page.evaluate(() => getComputedStyle(document.body).backgroundColor);
    await page.emulateMedia({ colorScheme: 'light' });
    await page.waitForFunction(() => document.documentElement.dataset.theme === 'light');
    const light = [await paper(), await picture(page, '#flames-canvas')];
    await page.emulateMedia({ colorScheme: 'dark' });
    await page.waitForFunction(() => document.documentElement.dataset.theme === 'dark');
    const dark = [await paper(), await picture(page, '#flames-canvas')];
    promise(light[0] !== dark[0] && light[1] !== dark[1], 'dark is as light');
    await page.click('#theme');
    same([await paper(), await picture(page, '#flames-canvas')], light, 'light by hand');
    await page.emulateMedia({ colorScheme: 'light' });
}

async function sections(page, expected) {
    same(await page.$$eval('#tasks tbody tr', (rows) => rows.map((row) => [...row.children].slice(0, 2).map((cell) => cell.textContent))), expected.tasks, 'tasks');
    same((await page.$$eval('#interrupts tbody tr td:first-child', (names) => names.map((name) => name.textContent))).sort(), expected.interrupts, 'interrupts');
    const hottest = (await cells(page, '#hottest'))[0];
    same(hottest.slice(0, 2), expected.bin, 'the hottest bin');
    same(await page.$$eval('#check-text p, #check-text li', (lines) => lines.map((line) => line.textContent)), expected.check, 'cross-check');
    const facts = await page.textContent('#facts');
    for (const fact of expected.facts) promise(facts.includes(fact), `${fact} is not among the facts: ${facts}`);
    // The strip leads to a function.
    const strip = page.locator('#strips canvas').first();
    await strip.scrollIntoViewIfNeeded();
    promise(await picture(page, '#strips canvas') !== 0, 'the addresses are blank');
    await page.locator('#hottest .row').first().click();
    same(await title(page), expected.bin_function, 'the function of the hottest bin');
    await page.click('#close');
}

async function look(file, expectedFile) {
    const expected = JSON.parse(await readFile(expectedFile, 'utf8'));
    return opened(file, async (page) => {
        await table(page, expected);
        await detail(page, expected.chosen);
        await flames(page, expected);
        await beside(page);
        await views(page, expected);
        await scope(page, expected.task);
        await taken(page, expected);
        await contrasts(page, expected);
        await keyboard(page, expected);
        await schemes(page);
        await sections(page, expected);
        return { headline: await page.textContent('#summary') };
    }).then(async (seen) => {
        await phone(file, expected);
        return seen;
    });
}

/** Each of the tasks alone. */
async function alone(file, tasksFile) {
    const tasks = JSON.parse(await readFile(tasksFile, 'utf8'));
    return opened(file, async (page) => {
        for (const task of tasks) await scope(page, task);
        return { tasks: tasks.length };
    });
}

/** Heat maps: a name beside each row, and an axis below. */
async function slices(file) {
    return opened(file, async (page) => {
        const maps = await page.$$eval('#slices canvas', (all) => all.map((canvas) => {
            const pen = canvas.getContext('2d');
            const ratio = window.devicePixelRatio || 1;
            const inked = (x, y, width, height) => pen.getImageData(x * ratio, y * ratio, width * ratio, height * ratio).data
                .some((value, index) => index % 4 === 3 && value > 0);
            const rows = Math.round((canvas.clientHeight - 18) / 14);
            const height = rows * 14;
            return {
                rows,
                named: Array.from({ length: rows }, (_, row) => inked(0, row * 14, 150, 14)).filter(Boolean).length,
                axis: inked(0, height + 4, 400, 14) && inked(canvas.clientWidth - 120, height + 4, 120, 14),
            };
        }));
        promise(maps.length === 2, `${maps.length} heat maps`);
        for (const { rows, named, axis } of maps) promise(rows > 3 && named === rows && axis, `${named} of ${rows} rows have a name; axis: ${axis}`);
        return maps;
    });
}

/** A page with another run beside its own. */
async function compared(file, expectedFile) {
    const expected = JSON.parse(await readFile(expectedFile, 'utf8'));
    return opened(file, async (page) => {
        const text = await page.textContent('#summary .change');
        for (const part of expected.text) promise(text.includes(part), `${part} is not in ${text}`);
        const rows = await cells(page, '#compare-table');
        same(rows.slice(0, expected.rows.length).map((row) => row.slice(0, 4)), expected.rows, 'what changed most');
        // At 1280 pixels the header is one line, and no heading of a column is cut off.
        const header = await page.$eval('header', (element) => element.clientHeight);
        promise(header < 45, `the header is ${header} pixels high`);
        const cut = await page.$$eval('#compare-table .head button, #compare-table .head .label', (heads) =>
            heads.filter((head) => head.scrollWidth > head.clientWidth).map((head) => head.textContent));
        same(cut, [], 'headings that are cut off');
        const numbers = await page.$$eval('#compare-table .row .number', (cells) =>
            cells.filter((cell) => cell.scrollWidth > cell.clientWidth).map((cell) => cell.textContent));
        same(numbers, [], 'numbers that are cut off');
        const before = await picture(page, '#flames-canvas');
        const toggle = page.getByLabel('what changed');
        same(await toggle.count(), expected.paths ? 1 : 0, 'paths to compare');
        if (expected.paths) {
            promise(await toggle.isChecked(), 'the page does not open with what changed');
            await toggle.uncheck();
            promise(await picture(page, '#flames-canvas') !== before, 'what changed has no colour');
            const fills = await page.locator('#compare ~ #flamegraph #legend i').count();
            promise(fills > 0, 'the comparison is not before the call paths');
            await toggle.check();
            const colours = await page.locator('#legend i').evaluateAll((boxes) => boxes.map((box) => getComputedStyle(box).backgroundColor));
            same(new Set(colours).size, 4, 'colours of the legend: new, grew, shrank, the same');
            await page.locator('#flames').focus();
            await page.keyboard.press('Home');
            await page.keyboard.press('ArrowDown');
            promise((await frame(page)).includes(expected.paths), `the widest path: ${await frame(page)}, not ${expected.paths}`);
        }
        // What is inlined wherever it is used has no code of its own to open.
        const changed = page.locator('#compare-table .row:not(.zero)').first();
        const name = await changed.locator('> div').first().textContent();
        await changed.click();
        same(await title(page), name, 'a function that changed');
        return {};
    });
}

async function names(file, namesFile) {
    const wanted = JSON.parse(await readFile(namesFile, 'utf8'));
    return opened(file, async (page) => {
        const known = await page.evaluate(() => [document.scripts.length, document.querySelectorAll('img, b b, iframe').length]);
        same(known, [2, 0], 'elements that are none of the page');
        const shown = new Set();
        const rows = await page.$eval(`${FUNCTIONS} [role=grid]`, (grid) => Number(grid.getAttribute('aria-rowcount')) - 1);
        await page.locator(`${FUNCTIONS} [role=grid]`).focus();
        for (let row = 0; row < rows; row++) {
            await page.keyboard.press('ArrowDown');
            const cell = page.locator(`${FUNCTIONS} .row.active > div`).first();
            shown.add(await cell.textContent());
        }
        for (const name of wanted) promise(shown.has(name), `${JSON.stringify(name)} is not shown; there are ${JSON.stringify([...shown])}`);
        // Opened, it is a text there, too.
        await page.fill('#search', '</script>');
        await page.locator(`${FUNCTIONS} .row`).first().click();
        same(await title(page), wanted.find((name) => name.includes('</script>')), 'the title');
        return { rows };
    });
}

async function large(file) {
    return opened(file, async (page) => {
        const count = () => page.evaluate(() => document.getElementsByTagName('*').length);
        const rows = await page.$eval(`${FUNCTIONS} [role=grid]`, (grid) => Number(grid.getAttribute('aria-rowcount')) - 1);
        const elements = [await count()];
        for (const to of [0.5, 1]) {
            await page.$eval(`${FUNCTIONS} .body`, (body, part) => { body.scrollTop = part * body.scrollHeight; }, to);
            await page.waitForTimeout(100);
            promise((await cells(page, FUNCTIONS)).length > 5, 'nothing is shown there');
            elements.push(await count());
        }
        await header(page, FUNCTIONS, 'Function').getByRole('button').click();
        await page.fill('#search', '_77');
        await page.locator(`${FUNCTIONS} .row`).first().click();
        promise((await title(page)).includes('_77'), 'no function was opened');
        await page.evaluate(() => scrollTo(0, 0));
        const box = await page.locator('#flames').boundingBox();
        await page.locator('#flames').click({ position: { x: box.width / 3, y: 27 } });
        promise(/[#&]z=\d+/.test(await hash(page)), 'no zoom');
        elements.push(await count());
        return { rows, elements: Math.max(...elements) };
    });
}

async function timeline(file) {
    return opened(file, async (page) => {
        const canvas = page.locator('#timeline canvas');
        await canvas.scrollIntoViewIfNeeded();
        const range = () => page.textContent('#timeline p');
        const [whole, all] = [await range(), await picture(page, '#timeline canvas')];
        await canvas.focus();
        await page.keyboard.press('+');
        await page.keyboard.press('+');
        const near = await picture(page, '#timeline canvas');
        promise(near !== all, 'zooming in changes nothing');
        promise((await range()) !== whole, 'the range is the same');
        await page.keyboard.press('ArrowRight');
        promise((await picture(page, '#timeline canvas')) !== near, 'moving changes nothing');
        await page.keyboard.press('0');
        same([await range(), await picture(page, '#timeline canvas')], [whole, all], 'all of it again');
        const box = await canvas.boundingBox();
        // Not every row has something in its middle.
        let tip = '';
        for (let y = 9; y < box.height - 18 && !tip; y += 18) {
            await page.mouse.move(box.x + box.width / 2, box.y + y);
            tip = await page.$eval('#tip', (element) => (element.hidden ? '' : element.textContent));
        }
        promise(tip.length > 5, 'no row says anything in its middle');
        return { range: whole, tip, note: await page.textContent('#timeline .bar .quiet') };
    });
}

async function read(file) {
    return opened(file, async (page) => page.evaluate(() => ({
        headline: document.getElementById('summary').textContent,
        sections: [...document.querySelectorAll('main > section:not([hidden])')].map((section) => section.id),
        text: document.querySelector('main').innerText,
    })));
}

main(([what, ...args]) => ({ look, alone, compared, slices, names, large, timeline, read })[what](...args));
