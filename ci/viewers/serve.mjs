// SPDX-License-Identifier: MIT OR Apache-2.0
// Proves that a browser shows what `harness serve` serves, and the next page by itself, at the same place.
//
// node serve.mjs URL NEXT PROFILE   NEXT, a profile file, takes the place of the served PROFILE once its page is shown
import { rename } from 'node:fs/promises';
import { main, open, promise } from './browser.mjs';

await main(([url, next, profile]) => open(url, async (page) => {
    const titled = (what) => page.waitForFunction((what) => document.title !== 'harness serve' && document.title !== what, what);
    await titled('');
    const first = await page.title();
    const report = page.frames().find((frame) => frame.url().split('#')[0].endsWith('/page'));
    promise(report, 'the report is a frame of the page');
    await report.locator('#functions-table .row[data-at]').filter({ hasText: /^main/ }).first().click();
    await report.waitForFunction(() => location.hash !== '');
    const place = await report.evaluate(() => location.hash);
    await rename(next, profile);
    await titled(first);
    promise(await page.locator('#said').isHidden(), 'nothing is said about a page that could be made');
    return {
        titles: [first, await page.title()],
        places: [place, await report.evaluate(() => location.hash)],
        function: await report.textContent('#function-title'),
    };
}));
