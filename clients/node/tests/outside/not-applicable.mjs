/** Tests of redlock 4 that cannot apply to Rushgate, by reason. A title stands for all tests below it. */

const ALL = ['single-server: https://www.npmjs.com/package/redis', 'single-server: https://www.npmjs.com/package/ioredis']
  .map((server) => `Redlock: ${server}`)

/** The titles below each server. */
const each = (...titles) => ALL.flatMap((server) => titles.map((title) => `${server} ${title}`))
/** The titles in the callback style and with promises. */
const both = (title) => ['callbacks', 'promises'].map((style) => `${style} ${title}`)

export const notApplicable = {
  'a lock is in one store, and not in a majority of several': ['Redlock: multi-server: https://www.npmjs.com/package/ioredis'],
  'an option of redis 3': ['Redlock: single-server: https://www.npmjs.com/package/redis (string_numbers=true)'],
  'a lock has one name; several are taken one after the other': each('callbacks - multi', 'promises - multi', 'disposer - multi'),
  'the scripts of redlock': each('supports custom script functions in options'),
  'a private method of redlock': each('callbacks lockWithOptions should be backwards compatible'),
  'a second release returns the answer of the first, so that it can be repeated': each(...both('should unlock an already-unlocked resource')),
  'changes the name of a held lock': each(
    ...both('should error when unable to fully release a resource'),
    'disposer should call unlockErrorHandler when unable to fully release a resource',
  ),
}
