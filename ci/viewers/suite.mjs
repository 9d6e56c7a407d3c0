// SPDX-License-Identifier: MIT OR Apache-2.0
// Proves that the page of a suite (`harness report REPORTS`) shows what failed first, filters by group and word, and opens an
// image's details, in both colour schemes, without a request, and with every name as text.
//
// node suite.mjs PAGE
import { pathToFileURL } from 'node:url';
import { main, open, promise, readable } from './browser.mjs';

await main(async ([file]) => {
    const schemes = {};
    for (const colorScheme of ['light', 'dark']) {
        schemes[colorScheme] = await open(pathToFileURL(file).href, async (page) => {
            await readable(page, ['body', 'h1', 'th button', 'button.name', '.quiet', '.count', '.up', '.down']);
            const texts = (selector) => page.$$eval(selector, (all) => all.map((element) => element.textContent));
            const rows = () => page.$$eval('#images tr:not(.more)', (rows) =>
                rows.slice(1).map((row) => [...row.cells].map((cell) => cell.textContent)));
            const group = (name) => page.locator('#groups button').filter({ hasText: name }).first().click();
            const seen = {
                title: await page.title(),
                verdict: await page.textContent('#verdict'),
                headline: await page.textContent('#headline'),
                suite: await texts('#suite li'),
                groups: await texts('#groups button'),
                first: await rows(),
            };
            await group('all');
            seen.all = await rows();
            seen.more = await page.textContent('#more');
            await page.getByRole('button', { name: 'Sort by Change' }).click();
            seen.changed = await rows();
            await page.getByRole('button', { name: 'Failed first' }).click();
            const button = page.locator('#images button.name').first();
            await button.focus();
            await page.keyboard.press('Enter');
            seen.details = await texts('#images tr.more li, #images tr.more p, #images tr.more pre, #images tr.more td.number');
            promise(await page.evaluate(() => document.activeElement.textContent) === seen.all[0][1], 'the focus stays');
            await page.keyboard.press('Enter');
            promise(await page.locator('#images tr.more').count() === 0, 'the details close');
            await page.keyboard.press('/');
            await page.keyboard.type(seen.all.at(-1)[1].slice(-6));
            seen.found = (await rows()).map((row) => row[1]);
            seen.scripts = await page.locator('script').count();
            seen.images = await page.locator('img').count();
            return seen;
        }, { colorScheme });
    }
    return schemes;
});
