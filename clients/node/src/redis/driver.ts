/** What this package needs of a Redis client library. */

/** An argument of a command. */
export type Argument = string | Buffer

/** An answer of the server. Byte strings and statuses are `Buffer`s. */
export type Reply = number | Buffer | null | Reply[]

/** A connection for commands, or one to each node of a Cluster. */
export interface Connection {
  /** Sends a command once. In a Cluster, `key` selects the node. */
  send(command: Argument[], key: string): Promise<Reply>
  close(): void
}

/** A subscription to one channel, which reconnects until it is closed. */
export interface Subscription {
  close(): void
}

/** What a subscription calls. */
export interface Subscriber {
  message(content: Buffer): void
  /** The subscription was lost and is back: messages may have been lost. */
  reconnected(): void
}

/** Opens connections with one client library. */
export interface Driver {
  readonly isCluster: boolean
  connect(): Promise<Connection>
  subscribe(channel: string, subscriber: Subscriber): Promise<Subscription>
}

/** An error of the connection rather than an answer: the command may have been executed. */
export class ConnectionError extends Error {}

/** An error that the server answered. */
export class ReplyError extends Error {}
