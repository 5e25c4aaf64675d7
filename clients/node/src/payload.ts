/** Content of tasks and results: how values become bytes, and back. */

import { contentType as checkContentType, invalid, kind as checkKind, traceparent as checkTraceparent } from './check.js'
import * as contract from './contract.js'
import type { Content, Payload } from './types.js'

const UTF8 = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true })

/** Content that is checked and encoded. */
export interface Encoded {
  bytes: Buffer
  /** Without the kind and the trace. */
  contentType: string
  kind?: string
  traceparent?: string
}

function essenceOf(contentType: string): string {
  return contentType.split(';', 1)[0]!.trim().toLowerCase()
}

export function isJson(contentType: string): boolean {
  const essence = essenceOf(contentType)
  return essence === contract.JSON_TYPE || essence.endsWith('+json')
}

export function isText(contentType: string): boolean {
  return essenceOf(contentType).startsWith('text/')
}

/** Checks and encodes content. `field` names it in errors. */
export function encode(content: Content, field = 'payload', maxBytes: number = contract.PAYLOAD_BYTES): Encoded {
  const contentType = content.contentType === undefined ? defaultType(content.payload) : checkContentType(content.contentType)
  const bytes = bytesOf(content.payload, contentType, field)
  if (bytes.length > maxBytes) throw invalid(field, `has ${bytes.length} bytes; at most ${maxBytes} are allowed`)
  return {
    bytes,
    contentType,
    kind: content.kind === undefined ? undefined : checkKind(content.kind),
    traceparent: content.traceparent === undefined ? undefined : checkTraceparent(content.traceparent),
  }
}

function defaultType(payload: unknown): string {
  return payload === undefined || payload instanceof Uint8Array ? contract.BYTES_TYPE : contract.JSON_TYPE
}

function bytesOf(payload: unknown, contentType: string, field: string): Buffer {
  if (payload === undefined) return Buffer.alloc(0)
  if (payload instanceof Uint8Array) return Buffer.from(payload.buffer, payload.byteOffset, payload.byteLength)
  if (isJson(contentType)) return jsonOf(payload, field)
  if (typeof payload !== 'string') throw invalid(field, `must be a string or bytes, because the content type is ${contentType}`)
  return Buffer.from(payload)
}

function jsonOf(payload: unknown, field: string): Buffer {
  let text: string | undefined
  try {
    text = JSON.stringify(payload)
  } catch (error) {
    throw invalid(field, `cannot be written as JSON: ${(error as Error).message}`)
  }
  if (text === undefined) throw invalid(field, 'cannot be written as JSON')
  return Buffer.from(text)
}

/** Decodes content by its media type. What does not match it stays a `Buffer`. */
export function decode({ bytes, ...rest }: Encoded): Payload {
  try {
    return { payload: valueOf(bytes, rest.contentType), ...rest }
  } catch {
    return { payload: bytes, ...rest, undecodable: true }
  }
}

function valueOf(bytes: Buffer, contentType: string): unknown {
  if (isJson(contentType)) return JSON.parse(UTF8.decode(bytes))
  return isText(contentType) ? UTF8.decode(bytes) : bytes
}
