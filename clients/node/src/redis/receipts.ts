/** Receipts: signed texts that restore a reservation. */

import { createHmac, timingSafeEqual } from 'node:crypto'

import * as contract from '../contract.js'
import type { Hold } from '../types.js'

/** Content of a receipt. */
export interface Receipt {
  s: string
  g: number
  q: number
  i: string
  b: string
  u: [sku: string, unit: number][]
  d: number
}

function signature(secret: Buffer, content: string): Buffer {
  return createHmac('sha256', secret).update(contract.RECEIPT_DOMAIN).update(content).digest()
}

/** The receipt of a reservation. */
export function writeReceipt(sale: string, secret: Buffer, hold: Hold): string {
  const units = hold.units.map(({ sku, unit }): [string, number] => [sku, unit])
  const receipt: Receipt = { s: sale, g: hold.generation, q: hold.seq, i: hold.id, b: hold.buyer, u: units, d: hold.deadlineUs }
  const content = Buffer.from(JSON.stringify(receipt)).toString('base64url')
  return `${contract.RECEIPT_PREFIX}${content}.${signature(secret, content).toString('base64url')}`
}

/** The content of a receipt that this sale signed. Nothing for any other text. */
export function readReceipt(sale: string, secret: Buffer, text: string): Receipt | undefined {
  const [content, signed, ...more] = text.trim().replace(contract.RECEIPT_PREFIX, '').split('.')
  if (!text.trim().startsWith(contract.RECEIPT_PREFIX) || !content || !signed || more.length > 0) return undefined
  const [expected, given] = [signature(secret, content), Buffer.from(signed, 'base64url')]
  if (expected.length !== given.length || !timingSafeEqual(expected, given)) return undefined
  const receipt = JSON.parse(Buffer.from(content, 'base64url').toString()) as Receipt
  return receipt.s === sale ? receipt : undefined
}
