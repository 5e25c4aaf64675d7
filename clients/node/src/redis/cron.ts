/**
 * Occurrences of a cron pattern, the same as those of Rust programs. A pattern has five fields, or six with seconds in front:
 * numbers, names, lists, ranges, steps and `?`, and also `L` for the last day, `5L` for the last Friday and `5#2` for the
 * second. Nicknames such as `@daily` work too.
 */

import { invalid } from '../check.js'

const NICKNAMES = new Map(Object.entries({
  '@yearly': '0 0 1 1 *', '@annually': '0 0 1 1 *', '@monthly': '0 0 1 * *', '@weekly': '0 0 * * 0', '@daily': '0 0 * * *',
  '@midnight': '0 0 * * *', '@hourly': '0 * * * *',
}))
interface Field {
  low: number
  high: number
  names?: string[]
}
const SECONDS: Field = { low: 0, high: 59 }
const MINUTES: Field = { low: 0, high: 59 }
const HOURS: Field = { low: 0, high: 23 }
const DAYS: Field = { low: 1, high: 31 }
const MONTHS: Field = { low: 1, high: 12, names: 'jan feb mar apr may jun jul aug sep oct nov dec'.split(' ') }
const WEEKDAYS: Field = { low: 0, high: 7, names: 'sun mon tue wed thu fri sat'.split(' ') }
/** A pattern that does not occur within these years never does. */
const YEARS = 9
const SECOND = 1_000
const MINUTE = 60_000
const HOUR = 3_600_000
const DAY = 86_400_000
/** Clocks change at multiples of this. */
const CLOCK_STEP = 15 * MINUTE

type DayTest = (civil: Date) => boolean

/** Moments are in ms since 1970. A civil time is a `Date` whose UTC fields are those of the local clock. */
export class Pattern {
  readonly #seconds: Set<number>
  readonly #minutes: Set<number>
  readonly #hours: Set<number>
  readonly #isDay: DayTest
  readonly #zone: Zone

  constructor(text: string, zone: string) {
    const words = (NICKNAMES.get(text) ?? text).trim().toLowerCase().split(/\s+/)
    if (words.length === 5) words.unshift('0')
    const [seconds, minutes, hours, days, months, weekdays, ...more] = words
    if (weekdays === undefined || more.length > 0) throw invalid('cron', `\`${text}\` must have five or six fields`)
    this.#seconds = read(seconds!, SECONDS)
    this.#minutes = read(minutes!, MINUTES)
    this.#hours = read(hours!, HOURS)
    this.#isDay = dayTest(days!, read(months!, MONTHS), weekdays)
    this.#zone = new Zone(zone)
  }

  /**
   * The first occurrence after a moment. A fixed time, which has one hour, minute and second, moves to the next time that
   * exists if the clocks skip it, and occurs once if they repeat it. Other times follow the local clock.
   */
  nextAfter(moment: number): number | undefined {
    const isFixed = [this.#seconds, this.#minutes, this.#hours].every(({ size }) => size === 1)
    return isFixed ? this.#nextFixed(moment) : this.#nextByClock(moment)
  }

  #nextFixed(moment: number): number | undefined {
    const time = only(this.#hours) * HOUR + only(this.#minutes) * MINUTE + only(this.#seconds) * SECOND
    const first = startOfDay(this.#zone.civil(moment))
    for (let day = first; day < first + YEARS * 366 * DAY; day += DAY) {
      if (!this.#isDay(new Date(day))) continue
      const at = this.#zone.existing(day + time)
      if (at > moment && this.#isDay(new Date(this.#zone.civil(at)))) return at
    }
    return undefined
  }

  #nextByClock(moment: number): number | undefined {
    const last = moment + YEARS * 366 * DAY
    for (let at = (Math.floor(moment / SECOND) + 1) * SECOND; at < last;) {
      const civil = this.#zone.civil(at)
      const local = new Date(civil)
      if (!this.#isDay(local)) at = this.#zone.existing(startOfDay(civil) + DAY)
      else if (!this.#hours.has(local.getUTCHours())) at += HOUR - civil % HOUR
      else if (!this.#minutes.has(local.getUTCMinutes())) at += MINUTE - civil % MINUTE
      else if (!this.#seconds.has(local.getUTCSeconds())) at += SECOND
      else return at
    }
    return undefined
  }
}

/** By time zone, because making one takes long. */
const formats = new Map<string, Intl.DateTimeFormat>()

function formatOf(timeZone: string): Intl.DateTimeFormat {
  try {
    return new Intl.DateTimeFormat('en', { timeZone, timeZoneName: 'longOffset' })
  } catch {
    throw invalid('zone', `\`${timeZone}\` is unknown; use a name such as \`Europe/Berlin\``)
  }
}

/** The clocks of a time zone. */
class Zone {
  readonly #format: Intl.DateTimeFormat
  readonly #offsets = new Map<number, number>()

  constructor(timeZone: string) {
    this.#format = formats.get(timeZone) ?? formatOf(timeZone)
    formats.set(timeZone, this.#format)
  }

  civil(moment: number): number {
    return moment + this.#offset(moment)
  }

  /** The moment of a civil time: the first if it is repeated, and the end of the gap if it is skipped. */
  existing(civil: number): number {
    const [early, late] = [this.#offset(civil - DAY), this.#offset(civil + DAY)]
    const found = [civil - early, civil - late].filter((moment) => this.civil(moment) === civil)
    return found.length > 0 ? Math.min(...found) : this.#endOfGap(civil - late, civil - early)
  }

  /** `before` and `after` are moments before and after a change of the clocks. */
  #endOfGap(before: number, after: number): number {
    const offset = this.#offset(before)
    let low = Math.floor(before / CLOCK_STEP)
    while (this.#offset(low * CLOCK_STEP) === offset && low * CLOCK_STEP < after) low++
    return low * CLOCK_STEP
  }

  /** What the clocks are ahead of UTC. */
  #offset(moment: number): number {
    const step = Math.floor(moment / CLOCK_STEP)
    const known = this.#offsets.get(step)
    if (known !== undefined) return known
    const name = this.#format.formatToParts(step * CLOCK_STEP).find(({ type }) => type === 'timeZoneName')!.value
    const [, sign, hours, minutes, seconds = '0'] = /([+-])(\d+):(\d+)(?::(\d+))?/.exec(name) ?? [, '+', '0', '0']
    const offset = Number(`${sign}1`) * (Number(hours) * HOUR + Number(minutes) * MINUTE + Number(seconds) * SECOND)
    this.#offsets.set(step, offset)
    return offset
  }
}

/** The value of a set of one. */
function only(set: Set<number>): number {
  return Math.min(...set)
}

function startOfDay(civil: number): number {
  return Math.floor(civil / DAY) * DAY
}

/** If both kinds of days are restricted, one of them suffices. */
function dayTest(days: string, months: Set<number>, weekdays: string): DayTest {
  const [byDay, byWeekday] = [dayOfMonth(days), weekday(weekdays)]
  const isEither = !isAny(days) && !isAny(weekdays)
  return (civil) => months.has(civil.getUTCMonth() + 1) && (isEither ? byDay(civil) || byWeekday(civil) : byDay(civil) && byWeekday(civil))
}

function dayOfMonth(word: string): DayTest {
  const parts = word.split(',')
  const others = parts.filter((part) => part !== 'l')
  const days = others.length > 0 ? read(others.join(','), DAYS) : new Set<number>()
  return (civil) => days.has(civil.getUTCDate()) || parts.includes('l') && isLast(civil, 1)
}

function weekday(word: string): DayTest {
  const tests = word.split(',').map((part): DayTest => {
    const [, day = part, last, nth] = /^(\w+?)(?:(l)|#([1-5]))$/.exec(part) ?? []
    const weekdays = read(day, WEEKDAYS)
    // Sunday is 0 and 7.
    if (weekdays.has(7)) weekdays.add(0)
    return (civil) => weekdays.has(civil.getUTCDay()) && (!last || isLast(civil, 7)) && (!nth || Math.ceil(civil.getUTCDate() / 7) === Number(nth))
  })
  return (civil) => tests.some((test) => test(civil))
}

/** Whether a time some days later is in another month. */
function isLast(civil: Date, days: number): boolean {
  return new Date(civil.getTime() + days * DAY).getUTCMonth() !== civil.getUTCMonth()
}

function isAny(word: string): boolean {
  return word === '*' || word === '?'
}

function read(word: string, field: Field): Set<number> {
  return new Set(word.split(',').flatMap((part) => readPart(part, field)))
}

/** `*`, a number or a range. All but a number can have a step. */
function readPart(part: string, { low, high, names = [] }: Field): number[] {
  const [, bounds = '', stepText] = /^([^/]+)(?:\/(\d+))?$/.exec(part) ?? []
  const value = (text: string) => names.includes(text) ? names.indexOf(text) + low : /^\d+$/.test(text) ? Number(text) : NaN
  const [from, to, ...more] = isAny(bounds) ? [low, high] : bounds.split('-').map(value)
  const step = stepText === undefined ? 1 : Number(stepText)
  const last = to ?? from!
  const isValid = more.length === 0 && from! >= low && from! <= last && last <= high && step > 0 && (stepText === undefined || to !== undefined)
  if (!isValid) throw invalid('cron', `has the field \`${part}\`, which is malformed or out of range`)
  return Array.from({ length: Math.floor((last - from!) / step) + 1 }, (_, at) => from! + at * step)
}
