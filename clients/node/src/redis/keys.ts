import * as contract from '../contract.js'

/** The keys of one thing, such as a lock. They share a hash tag. */
export class Group {
  readonly #beginning: string
  readonly #endings: readonly string[]
  readonly #end: string

  constructor({ tag, endings }: { tag: string; endings: readonly string[] }, name: string, end = '') {
    this.#beginning = `${contract.KEY_PREFIX}{${tag}:${name}}:`
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

export const lockKeys = (name: string): Group => new Group(contract.LOCK_KEYS, name)
export const queueKeys = (name: string): Group => new Group(contract.QUEUE_KEYS, name)
export const workerKeys = (name: string): Group => new Group(contract.WORKERS_KEYS, name)
export const scheduleKeys = (name: string): Group => new Group(contract.SCHEDULES_KEYS, name)
export const uniqueKeys = (name: string): Group => new Group(contract.UNIQUE_KEYS, name)
export const replayKeys = (name: string, client: string): Group => new Group(contract.ANSWERS_KEYS, name, `:${client}`)
export const homeKeys = (id: string): Group => new Group(contract.HOME_KEYS, id)
export const saleKeys = (id: string): Group => new Group(contract.SALE_KEYS, id)

/** A key of a queue that is read without a function. */
export const queueKey = (name: string, ending: string): string =>
  `${contract.KEY_PREFIX}{${contract.QUEUE_KEYS.tag}:${name}}:${ending}`
