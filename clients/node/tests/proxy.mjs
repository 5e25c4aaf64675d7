/** A TCP proxy that can lose answers, and replace words of requests. */

import { once } from 'node:events'
import net from 'node:net'

export class Proxy {
  /** Bytes that clients have sent. */
  sent = 0
  #server
  #sockets = new Set()
  #lose = 'nothing'
  #pattern = ''
  #refuses = false
  #words = []
  /** Requests in which words were replaced. */
  replaced = 0

  /** Starts a proxy in front of a URL. `url` then leads through it. */
  static async start(to) {
    const proxy = new Proxy()
    const target = new URL(to)
    const server = { host: target.hostname, port: Number(target.port) }
    proxy.#server = net.createServer((client) => {
      if (proxy.#refuses) client.destroy()
      else proxy.#join(client, net.connect(server))
    })
    proxy.#server.listen(0, '127.0.0.1')
    await once(proxy.#server, 'listening')
    target.port = proxy.#server.address().port
    proxy.url = target.href.replace(/\/$/, '')
    return proxy
  }

  #join(client, server) {
    let loses = 'nothing'
    for (const socket of [client, server]) {
      this.#sockets.add(socket)
      socket.on('error', () => {})
      socket.on('close', () => {
        this.#sockets.delete(socket)
        client.destroy()
        server.destroy()
      })
    }
    client.on('data', (bytes) => {
      this.sent += bytes.length
      if (this.#lose !== 'nothing' && bytes.includes(this.#pattern)) {
        loses = this.#lose
        this.#lose = 'nothing'
        this.lost?.()
      }
      server.write(this.#withWords(bytes))
    })
    server.on('data', (bytes) => {
      if (loses === 'connection') client.destroy()
      else if (loses === 'nothing') client.write(bytes)
    })
  }

  /** Replaces a word of requests by one of the same length. */
  replace(word, by) {
    this.#words.push([word, by])
  }

  #withWords(bytes) {
    const request = bytes.toString('latin1')
    const passed = this.#words.reduce((text, [word, by]) => text.replaceAll(word, by), request)
    if (passed === request) return bytes
    this.replaced++
    return Buffer.from(passed, 'latin1')
  }

  /** The next request with this text is executed, and its connection ends before the answer. */
  cutAfter(pattern) {
    return this.#loseAfter('connection', pattern)
  }

  /** The next request with this text is executed, and its connection gives no answer any more. */
  stallAfter(pattern) {
    return this.#loseAfter('answers', pattern)
  }

  /** Resolves when the request was sent. */
  #loseAfter(what, pattern) {
    this.#lose = what
    this.#pattern = pattern
    return new Promise((resolve) => { this.lost = resolve })
  }

  /** Ends all connections. */
  cut() {
    for (const socket of this.#sockets) socket.destroy()
  }

  /** Ends all connections, and refuses new ones until `resume`. */
  pause() {
    this.#refuses = true
    this.cut()
  }

  resume() {
    this.#refuses = false
  }

  stop() {
    this.#server.close()
    this.cut()
  }
}
