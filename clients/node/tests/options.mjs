/** The target under test, and the options of its clients. */

import { readFileSync } from 'node:fs'

const { env } = process

export const target = JSON.parse(env.RUSHGATE_TARGET)
export const isHttp = target.url.startsWith('http')
/** Whether one TCP proxy can stand in front of the target. */
export const isSingle = ['redis', 'http', 'http-redis'].includes(target.kind)

export const options = {
  ...(isHttp && { token: env.RUSHGATE_TEST_TOKEN }),
  ...(target.library && { library: target.library }),
  ...(target.kind === 'tls' && { tls: { ca: readFileSync(env.RUSHGATE_TEST_CA) } }),
}
