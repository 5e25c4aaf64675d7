import { InvalidError } from '../errors.js'

/** Where a Redis URL leads to. */
export interface Target {
  kind: 'server' | 'sentinel' | 'cluster'
  tls: boolean
  username?: string
  password?: string
  nodes: { host: string; port: number }[]
  /** Name of the service that the sentinels watch. */
  service?: string
  database: number
}

const URL_PATTERN = /^(rediss?)(?:\+(sentinel|cluster))?:\/\/(?:([^@/]*)@)?([^/?#]+)(?:\/([^?#]*))?$/
const NODE_PATTERN = /^(?:\[([^\]]+)\]|([^:]+))(?::(\d{1,5}))?$/
const PORT = { server: 6379, sentinel: 26379, cluster: 6379 }

/** Parses `redis://`, `redis+sentinel://` or `redis+cluster://`, and the same with `rediss`. */
export function parseUrl(url: string): Target {
  const parts = URL_PATTERN.exec(url)
  if (!parts) throw new InvalidError('The URL is malformed.', { field: 'url', hint: 'Use redis://HOST, redis+sentinel://HOST/SERVICE or redis+cluster://HOST.' })
  const [, scheme, kindWord, account, hosts = '', path = ''] = parts
  const kind = (kindWord ?? 'server') as Target['kind']
  const segments = path.split('/').filter((segment) => segment !== '')
  const service = kind === 'sentinel' ? segments.shift() : undefined
  if (kind === 'sentinel' && service === undefined) throw new InvalidError('The URL names no service.', { field: 'url', hint: 'Use redis+sentinel://HOST/SERVICE.' })
  return {
    kind,
    tls: scheme === 'rediss',
    ...credentials(account),
    nodes: hosts.split(',').map((node) => parseNode(node, PORT[kind])),
    service,
    database: parseDatabase(segments),
  }
}

function credentials(account: string | undefined): Pick<Target, 'username' | 'password'> {
  if (account === undefined) return {}
  const [username = '', password] = account.split(/:(.*)/s).map(decodeURIComponent)
  return { username: username || undefined, password }
}

function parseNode(text: string, port: number): { host: string; port: number } {
  const parts = NODE_PATTERN.exec(text)
  if (!parts) throw new InvalidError('The URL has a malformed host.', { field: 'url' })
  return { host: (parts[1] ?? parts[2])!, port: parts[3] === undefined ? port : Number(parts[3]) }
}

function parseDatabase(segments: string[]): number {
  const [database = '0', ...rest] = segments
  if (!/^\d{1,5}$/.test(database) || rest.length > 0) {
    throw new InvalidError('The URL has a malformed database.', { field: 'url', hint: 'Use a number.' })
  }
  return Number(database)
}
