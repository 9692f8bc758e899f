// A whole session with one of the TypeScript SDKs: node session.mjs v1|v1-sse|v2|v2-modern URL, or with v1-stdio|v2-stdio|v2-modern-stdio
// and the path of husk in addition. Ends with status 0 if everything was as it should be.
import assert from 'node:assert/strict'
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs'

const [way, url, husk] = process.argv.slice(2)
const me = { name: 'husk-tests', version: '1' }

// `husk mcp` is started in the working directory: what the SDK passes on of the environment is little.
const stdio = { command: husk, args: ['mcp', '--url', url, '--root', '.'], cwd: process.cwd(), env: { ...process.env } }

async function connectStdio() {
  const v1 = way.startsWith('v1')
  const { Client } = await import(v1 ? '@modelcontextprotocol/sdk/client/index.js' : '@modelcontextprotocol/client')
  const { StdioClientTransport } = await import(v1 ? '@modelcontextprotocol/sdk/client/stdio.js' : '@modelcontextprotocol/client/stdio')
  const mode = way.includes('modern') ? { versionNegotiation: { mode: { pin: '2026-07-28' } } } : {}
  const client = new Client(me, mode)
  await client.connect(new StdioClientTransport(stdio))
  if (!v1) assert.equal(client.getProtocolEra(), way.includes('modern') ? 'modern' : 'legacy')
  return client
}

async function connect() {
  if (husk) return connectStdio()
  if (way === 'v1' || way === 'v1-sse') {
    const { Client } = await import('@modelcontextprotocol/sdk/client/index.js')
    const client = new Client(me)
    if (way === 'v1') {
      const { StreamableHTTPClientTransport } = await import('@modelcontextprotocol/sdk/client/streamableHttp.js')
      await client.connect(new StreamableHTTPClientTransport(new URL(`${url}/mcp`)))
    } else {
      const { SSEClientTransport } = await import('@modelcontextprotocol/sdk/client/sse.js')
      await client.connect(new SSEClientTransport(new URL(`${url}/sse`)))
    }
    return client
  }
  const { Client, StreamableHTTPClientTransport } = await import('@modelcontextprotocol/client')
  const mode = way === 'v2-modern' ? { versionNegotiation: { mode: { pin: '2026-07-28' } } } : {}
  const client = new Client(me, mode)
  await client.connect(new StreamableHTTPClientTransport(new URL(`${url}/mcp`)))
  assert.equal(client.getProtocolEra(), way === 'v2-modern' ? 'modern' : 'legacy')
  return client
}

const client = await connect()

async function call(name, args = {}, error = false) {
  const result = await client.callTool({ name, arguments: args })
  assert.equal(result.isError ?? false, error, JSON.stringify(result))
  return result
}
const text = (result) => result.content.filter((item) => item.type === 'text').map((item) => item.text).join('')

const names = (await client.listTools()).tools.map((tool) => tool.name)
assert(names.includes('execute_python_code'))

const created = await call('create_sandbox', { ttl_seconds: 600 })
const sandbox_id = created.structuredContent.sandbox_id
await call('execute_python_code', { code: 'x = 6', sandbox_id })
assert.equal(text(await call('execute_python_code', { code: 'x * 7', sandbox_id })), '42')

const code = "import matplotlib.pyplot as plt\nplt.plot([1, 2])\nplt.savefig('p.png')\nopen('t.txt', 'w').write('grün')"
const plot = await call('execute_python_code', { code, sandbox_id })
const image = plot.content.find((item) => item.type === 'image')
assert.equal(Buffer.from(image.data, 'base64').subarray(1, 4).toString(), 'PNG')
const links = Object.fromEntries(plot.content.filter((item) => item.type === 'resource_link').map((item) => [item.name, item]))
const [file] = (await client.readResource({ uri: links['t.txt'].uri })).contents
assert.equal(file.text, 'grün')
const [picture] = (await client.readResource({ uri: links['p.png'].uri })).contents
assert.equal(Buffer.from(picture.blob, 'base64').subarray(1, 4).toString(), 'PNG')

const installed = await call('install_packages', { packages: ['plainpkg'], sandbox_id })
assert.equal(installed.structuredContent.status, 'success')
assert.equal(text(await call('execute_python_code', { code: 'import plainpkg; print(plainpkg.version)', sandbox_id })), '1.0\n')
await call('write_file', { path: 'd/notes.txt', content: 'grün\n', sandbox_id })
assert(text(await call('read_file', { path: 'd/notes.txt', sandbox_id })).includes('grün'))
assert(text(await call('execute_terminal_command', { command: 'wc -c < d/notes.txt', sandbox_id })).includes('6'))
assert(text(await call('list_files', { sandbox_id })).includes('d/notes.txt'))
await call('delete_file', { path: 'd', sandbox_id })
await call('read_file', { path: 'd/notes.txt', sandbox_id }, true)

if (way === 'v2-modern') {
  assert.equal(client.getServerCapabilities().resources.subscribe, true)
  const uri = `husk://${sandbox_id}/t.txt`
  const updated = new Promise((resolve) => client.setNotificationHandler('notifications/resources/updated', ({ params }) => resolve(params.uri)))
  const subscription = await client.listen({ resourceSubscriptions: [uri, 'husk://nobody/x'] })
  assert.deepEqual(subscription.honoredFilter.resourceSubscriptions, [uri])
  await call('write_file', { path: 't.txt', content: 'changed', sandbox_id })
  assert.equal(await updated, uri)
  await subscription.close()
  assert.equal(await subscription.closed, 'local')
  assert((await client.listResources()).resources.some((resource) => resource.uri === uri))
}

if (husk) {
  mkdirSync('project/node_modules', { recursive: true })
  writeFileSync('project/node_modules/unwanted.js', '')
  writeFileSync('project/main.py', 'answer = 42\n')
  await call('copy_project', { local_path: 'project', path: 'p', sandbox_id })
  assert.equal(text(await call('execute_python_code', { code: 'import os; names = os.listdir("p"); import p.main; names, p.main.answer', sandbox_id })), "(['main.py'], 42)")
  await call('upload_file', { local_path: 'project/main.py', path: 'up.py', sandbox_id })
  await call('download_file', { path: 'up.py', local_path: 'down/again.py', sandbox_id })
  assert.equal(readFileSync('down/again.py', 'utf8'), 'answer = 42\n')
  await call('upload_file', { local_path: '/etc/hostname', path: 'x', sandbox_id }, true)
}

const steps = []
const slow = { name: 'execute_python_code', arguments: { code: "import time; print('go', flush=True); time.sleep(2.5)", sandbox_id } }
const onprogress = (progress) => steps.push(progress)
const slept = way.startsWith('v1') ? await client.callTool(slow, undefined, { onprogress }) : await client.callTool(slow, { onprogress })
assert.equal(text(slept), 'go\n')
assert(steps.length >= 2 && steps[1].progress > steps[0].progress, JSON.stringify(steps))

// Cancelling interrupts the kernel: the next code does not wait for a minute.
const controller = new AbortController()
const endless = { name: 'execute_python_code', arguments: { code: 'while True: pass', sandbox_id } }
const options = { signal: controller.signal }
const pending = way.startsWith('v1') ? client.callTool(endless, undefined, options) : client.callTool(endless, options)
setTimeout(() => controller.abort('enough'), 1000)
await assert.rejects(pending)
const before = Date.now()
assert.equal(text(await call('execute_python_code', { code: 'x', sandbox_id })), '6')
assert(Date.now() - before < 20000)

const failed = await call('execute_python_code', { code: '1/0', sandbox_id }, true)
assert(text(failed).includes('ZeroDivisionError'))
const prompt = await client.getPrompt({ name: 'python_sandbox' })
assert(prompt.messages[0].content.text.includes('execute_python_code'))
await call('close_sandbox', { sandbox_id })
await call('execute_python_code', { code: '1', sandbox_id }, true)
await client.close()
console.log('good')
