// SPDX-License-Identifier: MIT OR Apache-2.0
// Proves that a file is what speedscope reads: against the JSON schema of its package, and opened in its page, which
// shows all profiles and their frames, and complains of nothing.
//
// node speedscope.mjs FILE [--import]; --import: a file in another format that the page imports, which has no schema.
// Prints [{name, weight, frames: [{name, total, self}]}] as the page shows them; numbers are text, as they have units.
import { readFile } from 'node:fs/promises';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import Ajv from 'ajv';
import { main, open, promise, serve } from './browser.mjs';

const RELEASE = fileURLToPath(new URL('node_modules/speedscope/dist/release', import.meta.url));

async function validate(file) {
    const schema = JSON.parse(await readFile(path.join(RELEASE, 'file-format-schema.json')));
    const ajv = new Ajv();
    const validate = ajv.compile(schema);
    const document = JSON.parse(await readFile(file));
    promise(validate(document), `not what the schema says: ${ajv.errorsText(validate.errors)}`);
    document.profiles[0].unit = 'instructions';
    promise(!validate(document), 'the schema would not notice a unit that it does not have');
    return document.profiles[0].name;
}

/** The list of profiles, which the page has where there are several: name and weight of each. */
const profiles = (page) => page.evaluate(() => {
    const table = [...document.querySelectorAll('table')].find((table) => /Total Weight/.test(table.textContent));
    const rows = [...(table?.querySelectorAll('tbody tr') ?? [])];
    return rows.map((row) => [...row.cells].slice(1).map((cell) => cell.textContent));
});

/** The frames of the profile that is shown, which a page of this height has all in its document. */
const frames = (page) => page.evaluate(() => {
    const rows = [...[...document.querySelectorAll('table')].at(-1).querySelectorAll('tr')];
    const row = ({ cells: [total, self, name] }) => ({
        name: name.textContent,
        total: total.textContent.replace(/ \(.*/, ''),
        self: self.textContent.replace(/ \(.*/, ''),
    });
    return rows.filter(({ cells }) => cells.length === 3).map(row);
});

async function look(page, name) {
    const loaded = page.getByText('Symbol Name').waitFor().then(() => 'loaded');
    const failed = page.getByText('Something went wrong').waitFor().then(() => 'failed');
    const how = await Promise.race([loaded, failed]);
    promise(how === 'loaded', 'the page says that something went wrong');
    const list = await profiles(page);
    if (list.length === 0) {
        // A single one has no list, but its name above what it shows.
        promise(name !== undefined, 'the page shows one profile, whose name nobody has said');
        await page.waitForFunction((name) => {
            const texts = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
            while (texts.nextNode()) if (texts.currentNode.data === name) return true;
            return false;
        }, name);
        return [{ name, weight: null, frames: await frames(page) }];
    }
    const seen = [];
    for (const [index, [name, weight]] of list.entries()) {
        const title = `${name} (${index + 1}/${list.length})`;
        await page.waitForFunction(
            (title) => [...document.querySelectorAll('span')].some((span) => span.textContent === title), title,
        );
        seen.push({ name, weight, frames: await frames(page) });
        await page.keyboard.press('n');
    }
    return seen;
}

await main(async ([file, option]) => {
    const name = option === '--import' ? undefined : await validate(file);
    return serve(RELEASE, { profile: file }, (address) => open(
        `${address}/index.html#profileURL=profile&view=sandwich`,
        (page) => look(page, name),
        { viewport: { width: 1280, height: 8000 } },
    ));
});
