// SPDX-License-Identifier: MIT OR Apache-2.0
// Proves that a JSON file is what its JSON Schema (draft 2020-12) says, and that the schema would notice.
//
// node schema.mjs SCHEMA FILE [COUNT], where COUNT is a number that the file must have, as functions.0.self_insns
import { readFile } from 'node:fs/promises';
import Ajv2020 from 'ajv/dist/2020.js';
import { main, promise } from './browser.mjs';

await main(async ([schema, file, count = 'functions.0.self_insns']) => {
    const read = async (name) => JSON.parse(await readFile(name));
    const ajv = new Ajv2020({ strict: true, allErrors: true });
    // Formats of numbers that schemars writes and JSON Schema leaves to whoever wants them.
    for (const format of ['uint8', 'int32', 'uint32', 'uint64', 'uint', 'int64', 'double']) ajv.addFormat(format, true);
    const validate = ajv.compile(await read(schema));
    const document = await read(file);
    promise(validate(document), `not what the schema says: ${ajv.errorsText(validate.errors)}`);
    const path = count.split('.');
    const last = path.pop();
    const holder = path.reduce((value, key) => value[key], document);
    promise(typeof holder[last] === 'number', `there is no number at ${count}`);
    holder[last] = null;
    promise(!validate(document), 'the schema would not notice a count that is missing');
    return true;
});
