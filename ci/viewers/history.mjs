// SPDX-License-Identifier: MIT OR Apache-2.0
// Proves that the page of `harness history` shows its data: rows, steps, the chart and its marks, in both colour schemes,
// without a request, and with every name as text.
//
// node history.mjs PAGE
import { pathToFileURL } from 'node:url';
import { main, open, promise, readable } from './browser.mjs';

await main(async ([file]) => {
    const schemes = {};
    for (const colorScheme of ['light', 'dark']) {
        schemes[colorScheme] = await open(pathToFileURL(file).href, async (page) => {
            await readable(page, ['body', 'th', 'button.name', '.quiet', '.up', '.down']);
            const texts = (selector) => page.$$eval(selector, (all) => all.map((element) => element.textContent));
            const seen = {
                theme: await page.evaluate(() => document.documentElement.dataset.theme),
                rows: await page.$$eval('#numbers tr', (rows) =>
                    rows.slice(1).map((row) => [...row.cells].map((cell) => cell.textContent))),
                steps: await page.$$eval('#steps tr', (rows) =>
                    rows.slice(1).map((row) => [...row.cells].map((cell) => cell.textContent))),
                chosen: await page.textContent('#chosen-title'),
                marks: await page.locator('#chart .dot.step').count(),
                dots: await page.locator('#chart .dot').count(),
                bounds: await page.locator('#chart .bound').count(),
                titles: await texts('#chart title'),
                notes: await texts('#notes li'),
                scripts: await page.locator('script').count(),
                images: await page.locator('img').count(),
            };
            // The search leaves what matches, and a name chooses its number.
            const word = seen.rows.at(-1)[1].slice(0, 12);
            await page.fill('#search', word);
            const found = await texts('#numbers button.name');
            // An image's name counts, too.
            const rows = await page.$$eval('#numbers tr', (rows) => rows.slice(1).map((row) => row.textContent));
            promise(found.length && rows.every((row) => row.includes(word)), `found ${rows}`);
            await page.locator('#numbers button.name').last().click();
            promise((await page.textContent('#chosen-title')).endsWith(found.at(-1)), 'a click chooses nothing');
            return seen;
        }, { colorScheme });
    }
    return schemes;
});
