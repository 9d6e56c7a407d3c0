// Proves that a file is what speedscope reads: against its JSON schema, and opened in its page, which has to show
// its profiles and frames and complain of nothing.
//
// node speedscope.mjs FILE [--no-schema]; --no-schema: another format that the page imports.
// Prints {profiles: [{name, total}], frames: [{name, total, self}]}: all profiles, and the frames of the first as the
// page sorts them, by self.
import { readFile } from 'node:fs/promises';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';
import Ajv from 'ajv';
import { main, open, promise, serve } from './browser.mjs';

const RELEASE = fileURLToPath(new URL('node_modules/speedscope/dist/release', import.meta.url));

async function validate(file) {
    const schema = JSON.parse(await readFile(`${RELEASE}/file-format-schema.json`));
    // Its titles and `type`s are beside what ajv's strict mode expects.
    const ajv = new Ajv({ strict: false, allErrors: false });
    const profile = JSON.parse(await readFile(file));
    promise(ajv.validate(schema, profile), `not what the schema says: ${ajv.errorsText()}`);
    // What a schema cannot say.
    const { frames } = profile.shared;
    for (const { name, samples, weights, endValue } of profile.profiles) {
        promise(samples.length === weights.length, `${name}: ${samples.length} samples, ${weights.length} weights`);
        promise(samples.flat().every((frame) => frame in frames), `${name}: a frame that is not in the list`);
        promise(weights.reduce((sum, weight) => sum + weight, 0) === endValue, `${name}: the weights are not its width`);
    }
}

/** "1,234 (5.6%)", "1.23ms" */
const number = (cell) => Number(cell.replace(/\s*\(.*/s, '').replaceAll(',', ''));

async function look(page) {
    const failed = page.getByText('Something went wrong').waitFor().then(() => promise(false, 'the page shows an error'));
    failed.catch(() => {});
    // Rows of frames have shares behind their numbers; those of the list of profiles, which is hidden, have not.
    const frames = page.locator('tr').filter({ hasText: /\d%\)/ });
    await Promise.race([frames.first().waitFor(), failed]);
    const texts = (rows) => rows.map((row) => [...row.querySelectorAll('td')].map((cell) => cell.textContent));
    const listed = page.locator('table').filter({ hasText: 'Total Weight' }).locator('tbody tr');
    return {
        profiles: (await listed.evaluateAll(texts)).map(([, name, total]) => ({ name, total: number(total) })),
        frames: (await frames.evaluateAll(texts)).map(([total, self, name]) => ({
            name,
            total: number(total),
            self: number(self),
        })),
    };
}

await main(async (args) => {
    const options = { 'no-schema': { type: 'boolean' } };
    const { values, positionals } = parseArgs({ args, allowPositionals: true, options });
    const [file] = positionals;
    if (!values['no-schema']) await validate(file);
    // Only rows in view are made.
    const tall = { viewport: { width: 1280, height: 4000 } };
    return serve(RELEASE, { profile: file }, (address) =>
        open(`${address}/index.html#profileURL=profile&view=sandwich`, look, tall),
    );
});
