import assert from 'node:assert/strict'
import { test } from 'node:test'

import { InvalidError, NotFoundError } from 'rushgate'

import { connect, isHttp, unique, until } from './target.mjs'

const client = await connect()
const other = await connect()

/** An open sale of phones, without a ledger. */
async function open(units, more = {}) {
  const id = unique('sale')
  assert.equal(await client.createSale({ id, skus: [{ sku: 'phone', units }, { sku: 'case', units, perBuyer: 5 }], ledger: false, ...more }), 'created')
  const sale = client.sale(id)
  assert.equal(await sale.open(), 'open')
  return sale
}

const phone = (buyer, key = 'click') => ({ buyer, key, lines: [{ sku: 'phone' }] })

test('more buyers than units buy exactly the units', async () => {
  const units = 20
  const sale = await open(units)
  const same = other.sale(sale.id)
  const reserved = await Promise.all(Array.from({ length: 100 }, (_, n) => (n % 2 ? sale : same).reserve(phone(`buyer-${n}`))))
  const holds = reserved.filter(({ outcome }) => outcome === 'reserved').map(({ hold }) => hold)
  assert.equal(new Set(holds.map(({ units: [{ unit }] }) => unit)).size, units)
  assert.equal(holds.length, units)
  assert.ok(reserved.every(({ outcome }) => ['reserved', 'all_held'].includes(outcome)))
  const decisions = await Promise.all(holds.map(({ id }) => sale.confirm(id)))
  assert.ok(decisions.every(({ outcome }) => outcome === 'done'))
  const [{ confirmed, free, held, total, withdrawn }] = (await sale.state()).skus
  assert.deepEqual([total, confirmed, free, held, withdrawn], [units, units, 0, 0, 0])
  // A server answers from memory for 50 ms, in which the units may still be held.
  await until(async () => (await sale.reserve(phone('late'))).outcome === 'sold_out', 'the end of stock')
})

test('a repeated reservation is a replay', async () => {
  const sale = await open(2)
  const first = await sale.reserve(phone('ann'))
  assert.equal(first.outcome, 'reserved')
  assert.deepEqual([first.hold.buyer, first.hold.state, first.hold.units], ['ann', 'held', [{ sku: 'phone', unit: 1 }]])
  const again = await other.sale(sale.id).reserve(phone('ann'))
  assert.equal(again.outcome, 'replayed')
  assert.deepEqual(again.hold, first.hold)
  assert.equal((await sale.reserve({ ...phone('ann'), lines: [{ sku: 'case' }] })).outcome, 'key_reused')
  const { receipt, ...hold } = first.hold
  assert.match(receipt, /^rg1\./)
  assert.deepEqual(await sale.reservation(hold.id), hold)
})

test('each refusal has its outcome', async () => {
  const id = unique('sale')
  await client.createSale({ id, skus: [{ sku: 'phone', units: 1, perBuyer: 2 }, { sku: 'case', units: 9 }], ledger: false })
  assert.equal(await client.createSale({ id, skus: [{ sku: 'phone', units: 1 }], ledger: false }), 'exists')
  const sale = client.sale(id)
  assert.equal((await sale.reserve(phone('ann'))).outcome, 'not_open')
  await sale.open()
  await sale.reserve(phone('ann'))
  const held = await sale.reserve(phone('ben'))
  assert.deepEqual([held.outcome, held.sku, held.free], ['all_held', 'phone', 0])
  assert.ok(held.nextExpiryUs > 0)
  const cases = (quantity) => ({ buyer: 'ann', key: `cases-${quantity}`, lines: [{ sku: 'case', quantity }] })
  assert.deepEqual(await sale.reserve(cases(2)), { outcome: 'limit_reached', sku: 'case', limit: 1, has: 0 })
  await assert.rejects(sale.reserve({ ...phone('cid'), lines: [{ sku: 'none' }] }), NotFoundError)
  assert.equal(await sale.end(), 'ended')
  assert.equal((await sale.reserve(phone('dan'))).outcome, 'ended')
  await assert.rejects(client.sale(unique('none')).state(), NotFoundError)
  await assert.rejects(client.sale(unique('none')).reserve(phone('ann')), NotFoundError)
})

test('a hold is confirmed or canceled once', async () => {
  const sale = await open(5)
  const [a, b] = [(await sale.reserve(phone('ann'))).hold, (await sale.reserve(phone('ben'))).hold]
  const confirmed = await sale.confirm(a.id)
  assert.deepEqual([confirmed.outcome, confirmed.hold.state], ['done', 'confirmed'])
  assert.equal((await sale.confirm(a.id)).outcome, 'done')
  assert.deepEqual(await sale.cancel(a.id), { outcome: 'refused', state: 'confirmed' })
  assert.equal((await sale.cancel(b.id)).hold.state, 'cancelled')
  assert.deepEqual(await sale.confirm(b.id), { outcome: 'refused', state: 'cancelled' })
  assert.deepEqual(await sale.confirm('0'.repeat(32)), { outcome: 'unknown' })
  assert.equal(await sale.reservation('0'.repeat(32)), null)
  assert.equal((await sale.state()).skus[0].free, 4)
})

test('a cart is reserved whole, and may get one number', async () => {
  const sale = await open(10)
  const cart = await sale.reserve({ buyer: 'ann', key: 'cart', lines: [{ sku: 'case', quantity: 3 }, { sku: 'phone', quantity: 1 }] })
  assert.deepEqual(cart.hold.units.map(({ sku, unit }) => `${sku} ${unit}`), ['case 1', 'case 2', 'case 3', 'phone 1'])
  const same = await sale.reserve({ buyer: 'ben', key: 'cart', lines: [{ sku: 'case' }, { sku: 'phone' }], sameNumber: true })
  assert.deepEqual(same.hold.units.map(({ unit }) => unit), [4, 4])
})

test('a client waits until a reservation is final', async () => {
  const sale = await open(5)
  const { hold } = await sale.reserve(phone('ann'))
  assert.equal((await sale.waitFinal(hold.id, { waitMs: 50 })).state, 'held')
  const waiting = other.sale(sale.id).waitFinal(hold.id, { waitMs: 30_000 })
  await sale.confirm(hold.id)
  assert.equal((await waiting).state, 'confirmed')
  assert.equal(await sale.waitFinal('0'.repeat(32), { waitMs: 1_000 }), null)
  await assert.rejects(sale.waitFinal(hold.id, { signal: AbortSignal.abort(new Error('enough')) }), /enough/)
})

test('a hold expires at its deadline', async () => {
  const sale = await open(1, { holdMs: 200 })
  const { hold } = await sale.reserve(phone('ann'))
  assert.equal((await sale.waitFinal(hold.id, { waitMs: 20_000 })).state, 'expired')
  assert.deepEqual(await sale.confirm(hold.id), { outcome: 'refused', state: 'expired' })
  assert.equal((await sale.reserve(phone('ben'))).outcome, 'reserved')
})

test('a receipt is known to its sale and to no other', async () => {
  const [sale, another] = [await open(5), await open(5)]
  const { hold } = await sale.reserve(phone('ann'))
  const restored = await sale.restore(hold.receipt)
  assert.deepEqual([restored.outcome, restored.hold.id, restored.hold.units], ['known', hold.id, hold.units])
  assert.equal((await another.restore(hold.receipt)).outcome, 'not_honoured')
  for (const forged of ['', 'rg1.', 'rg1.e30.e30', `${hold.receipt}x`, hold.receipt.replace('rg1.', 'rg1.A')]) {
    assert.equal((await sale.restore(forged)).outcome, 'not_honoured', forged)
  }
})

test('spellings of a name are one buyer', async () => {
  const sale = await open(5)
  const first = await sale.reserve(phone('Zoe\u0308'))
  const again = await sale.reserve(phone('Zo\u00eb'))
  assert.deepEqual([again.outcome, again.hold.id], ['replayed', first.hold.id])
})

test('the state shows the stock and the settings', async () => {
  const opensAtUs = Date.now() * 1_000 + 3_600_000_000
  const sale = await open(7, { holdMs: 60_000, opensAtUs })
  const state = await sale.state()
  assert.deepEqual(state.skus[1], { sku: 'case', total: 7, free: 7, held: 0, confirmed: 0, withdrawn: 0, perBuyer: 5 })
  assert.deepEqual([state.id, state.holdMs, state.opensAtUs, state.ledger, state.status, state.generation], [sale.id, 60_000, opensAtUs, false, 'open', 1])
  assert.ok(state.nowUs > 0)
  const refused = await sale.reserve(phone('ann'))
  assert.deepEqual([refused.outcome, refused.opensAtUs], ['not_open', opensAtUs])
})

test('bad reservations and sales are refused with InvalidError', async () => {
  const sale = await open(5)
  const lines = [{ sku: 'phone' }]
  const wrong = [
    { buyer: '', key: 'k', lines }, { buyer: 'ann', key: '', lines }, { buyer: 'ann', key: 'schlüssel', lines }, { buyer: 'ann', key: 'x'.repeat(129), lines },
    { buyer: 'ann', key: 'k', lines: [] }, { buyer: 'ann', key: 'k', lines: [{ sku: 'phone', quantity: 0 }] }, { buyer: 'ann', key: 'k', lines: [...lines, ...lines] },
    { buyer: 'ann', key: 'k', lines: [{ sku: 'phone', quantity: 1.5 }] }, { buyer: 'ann', key: 'k', lines: [{ sku: 'phone', quantity: 2 }], sameNumber: true },
  ]
  for (const reservation of wrong) await assert.rejects(sale.reserve(reservation), InvalidError, JSON.stringify(reservation))
  await assert.rejects(sale.confirm('xyz'), InvalidError)
  for (const more of [{ skus: [] }, { skus: [{ sku: 'a', units: 0 }] }, { skus: [{ sku: 'a', units: 1, perBuyer: 0 }] }, { skus: [{ sku: 'a', units: 1 }, { sku: 'a', units: 1 }] }, { holdMs: 1 }]) {
    await assert.rejects(client.createSale({ id: unique('sale'), skus: [{ sku: 'a', units: 1 }], ...more }), InvalidError, JSON.stringify(more))
  }
  assert.equal((await sale.state()).skus[0].free, 5)
})

if (isHttp) test('a confirmation waits for the ledger', async () => {
  const sale = await open(5, { ledger: true })
  const { hold } = await sale.reserve(phone('ann'))
  const decision = await sale.confirm(hold.id, { waitMs: 20_000 })
  assert.deepEqual([decision.outcome, decision.hold.state], ['done', 'confirmed'])
})
