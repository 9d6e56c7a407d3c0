// Proves that the report (`harness report`) answers to clicks and keys, shows the profile's own numbers, and asks
// nobody for anything: opened from its file, without a network.
//
//   report.mjs look PAGE EXPECTED     everything, on a page that has it; EXPECTED is a JSON file of numbers
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
    same(await page.textContent('#matched'), 'no regular expression', 'a broken expression');
    await page.fill('#search', '');
    same((await cells(page, FUNCTIONS)).length, before.length, 'rows after the search');
}

async function detail(page, { name, self, calls, callers, lines, insns }) {
    await page.locator(`${FUNCTIONS} .row`).filter({ hasText: new RegExp(`^${name}\\d`) }).first().click();
    same(await title(page), name, 'the chosen function');
    const numbers = await page.textContent('#function-numbers');
    promise(numbers.startsWith(`${self} instructions itself`) && numbers.includes(` ${calls} call`), `numbers: ${numbers}`);
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
    promise(await visible(page, 'tip'), 'no tip at a frame');
    promise(/[\d,]+ instructions, \d+\.\d\d%/.test(await page.textContent('#tip')), `the tip: ${await page.textContent('#tip')}`);
    await page.mouse.click(box.x + box.width * 0.25, box.y + 27);
    promise(/[#&]z=\d+/.test(await hash(page)), `zoomed, and the address is ${await hash(page)}`);
    const zoomed = await picture(page, '#flames-canvas');
    promise(zoomed !== all, 'zooming changes nothing');
    await page.click('#reset');
    await page.mouse.move(5, 5);
    await page.evaluate(() => document.activeElement.blur());
    same(await picture(page, '#flames-canvas'), all, 'the picture after zooming out');
    await page.fill('#search', expected.hottest.name);
    promise(await picture(page, '#flames-canvas') !== all, 'a match is not marked');
    await page.fill('#search', '');
    // Everything of it, by name and exact count.
    await page.locator('#flames').focus();
    const frame = () => page.textContent('#frame');
    promise((await frame()).startsWith(`all ${expected.total} instructions, 100.00%`), `the root: ${await frame()}`);
    await page.keyboard.press('ArrowDown');
    promise((await frame()).startsWith(`${expected.widest.name} (${expected.widest.kind}) ${expected.widest.insns} instructions`), `the widest: ${await frame()}`);
    await page.evaluate(() => document.activeElement.blur());
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
        await keyboard(page, expected);
        await schemes(page);
        await sections(page, expected);
        return { headline: await page.textContent('#summary') };
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

main(([what, ...args]) => ({ look, names, large, timeline, read })[what](...args));
