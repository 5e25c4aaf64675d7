/** JSON of the HTTP API: names in snake case, content of tasks as JSON, text or base64. */

import { type Encoded, isJson, isText } from '../payload.js'

/** An object of the API with its names in camel case. Content is decoded, and values that are `null` are left out. */
export function fromWire<T>(value: unknown): T {
  return convert(value) as T
}

function convert(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(convert)
  if (typeof value !== 'object' || value === null) return value
  const entries = Object.entries(value).filter(([name, entry]) => entry !== null || name === 'payload')
  const converted = entries.map(([name, entry]) => [camel(name), name === 'payload' ? entry : convert(entry)])
  const object = Object.fromEntries(converted)
  return typeof object.contentType === 'string' ? withPayload(object, value) : object
}

function camel(name: string): string {
  return name.replace(/_([a-z])/g, (_, letter: string) => letter.toUpperCase())
}

/** JSON that is valid and text arrive as `payload`. Bytes arrive in base64, and so does what does not match its type. */
function withPayload({ payloadBase64 = '', ...object }: any, value: object): object {
  if ('payload' in value) return object
  const payload = Buffer.from(payloadBase64, 'base64')
  const matches = !isJson(object.contentType) && !isText(object.contentType)
  return { ...object, payload, ...(!matches && { undecodable: true }) }
}

/** Fields of a request that hold content, under these names. Base64 keeps every byte. */
export function contentFields({ bytes, contentType, kind, traceparent }: Encoded, name = 'payload', type = 'content_type'): object {
  return { [`${name}_base64`]: bytes.toString('base64'), [type]: contentType, kind, traceparent }
}
