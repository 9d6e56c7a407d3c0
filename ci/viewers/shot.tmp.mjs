import { open, main } from './browser.mjs';
import { pathToFileURL } from 'node:url';
await main(async ([file, out, width, height, scheme, steps = '']) => open(pathToFileURL(file).href + (steps.startsWith('#') ? steps.split('|')[0] : ''), async (page, complaints) => {
  await page.emulateMedia({ colorScheme: scheme });
  for (const step of steps.split('|').filter((s) => s && !s.startsWith('#'))) await page.evaluate(step);
  await page.waitForTimeout(400);
  await page.screenshot({ path: out, fullPage: steps.includes('/*full*/') });
  const cut = await page.evaluate(() => document.documentElement.scrollWidth - innerWidth);
  return { complaints, cut };
}, { viewport: { width: Number(width), height: Number(height) } }));
