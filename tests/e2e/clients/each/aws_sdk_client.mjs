// The AWS SDK for JavaScript v3; speaks far_end.py's protocol.
import { createReadStream, readFileSync, writeFileSync } from "node:fs";
import { createRequire } from "node:module";
import { join } from "node:path";
import { createInterface } from "node:readline";

const packages = createRequire(join(process.env.CLIENT_VENV, "npm", "package.json"));
const sdk = packages("@aws-sdk/client-s3");
const { Upload } = packages("@aws-sdk/lib-storage");
const { getSignedUrl } = packages("@aws-sdk/s3-request-presigner");

const Bucket = process.env.BUCKET;
const s3 = new sdk.S3Client({ region: process.env.AWS_DEFAULT_REGION, forcePathStyle: true });
const send = (name, input) => s3.send(new sdk[`${name}Command`]({ Bucket, ...input }));

async function download(path, input) {
  const answer = await send("GetObject", input);
  writeFileSync(path, await answer.Body.transformToByteArray());
}

const client = {
  version: async () => packages("@aws-sdk/client-s3/package.json").version,
  put: ({ path, key }) => send("PutObject", { Key: key, Body: readFileSync(path) }),
  multipart: ({ path, key }) =>
    new Upload({ client: s3, params: { Bucket, Key: key, Body: createReadStream(path) }, partSize: 5 << 20 }).done(),
  get: ({ key, path }) => download(path, { Key: key }),
  get_range: ({ key, start, end, path }) => download(path, { Key: key, Range: `bytes=${start}-${end - 1}` }),
  list: async ({ prefix }) => (await send("ListObjectsV2", { Prefix: prefix })).Contents.map((row) => [row.Key, row.Size]),
  copy: ({ source, target }) => send("CopyObject", { Key: target, CopySource: encodeURI(`${Bucket}/${source}`).replaceAll("+", "%2B") }),
  delete: ({ key }) => send("DeleteObject", { Key: key }),
  presigned: async ({ path, prefix }) => {
    const Key = `${prefix}/presigned`;
    await send("PutObject", { Key, Body: readFileSync(path) });
    const url = await getSignedUrl(s3, new sdk.GetObjectCommand({ Bucket, Key }));
    const body = Buffer.from(await (await fetch(url)).arrayBuffer());
    if (!body.equals(readFileSync(path))) throw new Error(`${body.length} other bytes`);
  },
};

for await (const line of createInterface({ input: process.stdin })) {
  const { method, arguments: given } = JSON.parse(line);
  let answer;
  try {
    const value = await client[method](given);
    answer = { value: ["version", "list"].includes(method) ? value : null };
  } catch (error) {
    answer = { error: String(error.stack ?? error) };
  }
  process.stdout.write(`${JSON.stringify(answer)}\n`);
}
