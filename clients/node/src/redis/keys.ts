import { KEY_PREFIX, KEYS, READABLE_KEYS, TAGS } from '../contract.js'

/** The keys of one thing, such as a lock. They share a hash tag. */
export class Group {
  readonly #beginning: string
  readonly #endings: readonly string[]
  readonly #end: string

  constructor(tag: string, name: string, endings: readonly string[], end = '') {
    this.#beginning = `${KEY_PREFIX}{${tag}:${name}}:`
    this.#endings = endings
    this.#end = end
  }

  /** The first key, from which a function derives the others. */
  get first(): string {
    return this.#key(this.#endings[0]!)
  }

  /** All keys, which a Cluster needs. */
  get all(): string[] {
    return this.#endings.map((ending) => this.#key(ending))
  }

  #key(ending: string): string {
    return this.#beginning + ending + this.#end
  }
}

export const lockKeys = (name: string): Group => new Group(TAGS.lock, name, KEYS.lock)
export const queueKeys = (name: string): Group => new Group(TAGS.queue, name, KEYS.queue)
export const workerKeys = (name: string): Group => new Group(TAGS.queue, name, KEYS.workers)
export const scheduleKeys = (name: string): Group => new Group(TAGS.queue, name, KEYS.schedules)
export const uniqueKeys = (name: string): Group => new Group(TAGS.queue, name, KEYS.unique)
export const replayKeys = (name: string, client: string): Group => new Group(TAGS.queue, name, KEYS.replays, `:${client}`)
export const homeKeys = (id: string): Group => new Group(TAGS.sale, id, KEYS.home)
export const saleKeys = (id: string): Group => new Group(TAGS.sale, id, KEYS.sale)

/** The leases of a queue, as a sorted set. */
export const leasesKey = (name: string): string => `${KEY_PREFIX}{${TAGS.queue}:${name}}:${READABLE_KEYS.leases}`

/** The waiting tasks of one priority, as a sorted set. */
export const waitingKey = (name: string, priority: number): string =>
  `${KEY_PREFIX}{${TAGS.queue}:${name}}:${READABLE_KEYS.waiting}${priority}`
