<?php

declare(strict_types=1);

/**
 * Calls Rushgate's function library on a Redis or Valkey server. Base of the other classes in this directory.
 *
 * Install the library with `rushgate functions install`. docs/protocol.md describes the functions.
 */
final class Rushgate
{
    /** Protocol version of this file. */
    private const PROTOCOL = 1;

    private const LOCK = ['lock', 'line', 'waiters', 'ends'];
    private const QUEUE = [
        'meta', 'records', 'runs', 'newcomers', 'leases', 'listeners', 'waiting0', 'waiting1', 'waiting2',
        'waiting3', 'waiting4', 'waiting5', 'waiting6', 'waiting7', 'waiting8', 'waiting9', 'blocked', 'held',
        'groups', 'key_leases', 'starts', 'starts_until', 'dead', 'dead_ids', 'done', 'done_ids', 'by_age',
        'by_deadline', 'dependents', 'dependencies', 'results', 'result_ids', 'unsettled', 'unsettled_ids',
        'events', 'watchers',
    ];
    private const SALE = ['row', 'returned', 'withdrawn', 'buyers', 'holds', 'deadlines', 'events', 'failed'];

    /** @var ?WeakMap<Redis|RedisCluster, int> process that uses each connection */
    private static ?WeakMap $users = null;
    private ?Inbox $inbox = null;

    /** @param mixed $auth credentials for the notification connection. Needed with a `RedisCluster`, which does not expose its own. */
    public function __construct(private readonly Redis|RedisCluster $redis, private readonly mixed $auth = null)
    {
        // Return a status such as AGAIN as text instead of true.
        $redis->setOption(Redis::OPT_REPLY_LITERAL, 1);
        [$protocol, $version] = $this->call('version', [], []);
        if ($protocol !== self::PROTOCOL) {
            throw new RuntimeException("Rushgate $version on the server speaks protocol $protocol, this file " . self::PROTOCOL);
        }
    }

    /** Calls a function of the library. The call's token or op makes repeats idempotent. */
    public function call(string $function, array $keys, array $arguments, float $patience = 5): mixed
    {
        do {
            $words = ['FCALL', "rushgate_1_$function", count($keys), ...$keys, ...$arguments];
            $answer = $this->send($keys[0] ?? '', $words, $patience);
        } while ($answer === 'AGAIN');
        return $answer;
    }

    /**
     * Sends a command, and retries for $patience seconds after a lost connection. In a Cluster, the key selects the node.
     */
    public function send(string $key, array $words, float $patience = 5): mixed
    {
        $where = $this->redis instanceof RedisCluster ? [$key] : [];
        $until = self::now() + $patience;
        $this->leaveParentsConnection();
        while (true) {
            $this->redis->clearLastError();
            $lost = null;
            try {
                $answer = $this->redis->rawCommand(...$where, ...$words);
            } catch (RedisException | RedisClusterException $lost) {
            }
            // The extension reports a refusal as false or as an exception, and sets the last error. A lost connection sets none.
            if (($refusal = $this->redis->getLastError()) !== null) {
                $hint = str_contains($refusal, 'Function not found') ? '; run `rushgate functions install`' : '';
                throw new RuntimeException("$words[0] $words[1]: $refusal$hint");
            }
            if ($lost === null) {
                return $answer;
            }
            if (self::now() >= $until) {
                throw $lost;
            }
            usleep(20_000);
            try {
                // A raw command does not find the new owner of the key. Other commands do, and update the slot map.
                $where === [] || $this->redis->exists($key);
            } catch (RedisClusterException) {
            }
        }
    }

    /** After a fork, opens a new connection, because processes cannot share one. The parent's stays open. */
    private function leaveParentsConnection(): void
    {
        self::$users ??= new WeakMap();
        $user = self::$users[$this->redis] ?? getmypid();
        self::$users[$this->redis] = getmypid();
        if ($user === getmypid()) {
            return;
        }
        $database = $this->redis instanceof Redis ? $this->redis->getDBNum() : 0;
        $this->redis->close();
        $database === 0 || $this->redis->select($database);
    }

    /** Meaning of a number. An unknown number belongs to a later protocol, so it is an error. */
    public static function meaning(array $names, int $number): string
    {
        return $names[$number] ?? throw new RuntimeException(
            "the server answered $number, which protocol " . self::PROTOCOL . ' does not know',
        );
    }

    /**
     * A name in Normalization Form C. The server compares bytes, and Rust programs normalize names too. Only the extension
     * intl can normalize, so without it a name must be ASCII.
     */
    public static function nfc(string|int|float $name): string
    {
        $name = (string) $name;
        if (!preg_match('/[\x80-\xff]/', $name)) {
            return $name;
        }
        if (!class_exists(Normalizer::class)) {
            throw new InvalidArgumentException("the name `$name` is not ASCII, and needs the PHP extension intl");
        }
        $normalized = Normalizer::normalize($name, Normalizer::FORM_C);
        return $normalized === false ? throw new InvalidArgumentException('the name is not UTF-8') : $normalized;
    }

    /** Keys of a lock. */
    public static function lockKeys(string $name): array
    {
        $name = self::nfc($name);
        return self::under("rg:{l:$name}:", self::LOCK);
    }

    /** Keys of a queue. */
    public static function queueKeys(string $name): array
    {
        $name = self::nfc($name);
        return self::under("rg:{q:$name}:", self::QUEUE);
    }

    /** Keys under which the server stores its latest answers to this client. */
    public function answerKeys(string $queue): array
    {
        $queue = self::nfc($queue);
        $client = bin2hex(self::client());
        return self::under("rg:{q:$queue}:", ["young:$client", "old:$client"]);
    }

    /** Key of a queue's uniqueness windows. */
    public static function uniqueKeys(string $queue): array
    {
        $queue = self::nfc($queue);
        return self::under("rg:{q:$queue}:", ['unique']);
    }

    /** Keys of a sale. */
    public static function saleKeys(string $id): array
    {
        return self::under("rg:{s:$id}:", self::SALE);
    }

    private static function under(string $beginning, array $endings): array
    {
        return array_map(fn (string $ending) => $beginning . $ending, $endings);
    }

    /**
     * Eight bytes that identify this process. They stay the same for all requests of a PHP worker: with a new client per
     * request, the server would store the latest answers of each.
     */
    private static function client(): string
    {
        return substr(hash('sha256', gethostname() . ':' . getmypid(), true), 0, 8);
    }

    /** Token of one acquisition. */
    public function token(): string
    {
        return self::client() . random_bytes(8);
    }

    /** Op of one queue call. */
    public function op(): string
    {
        return random_bytes(8);
    }

    /** Subscription for notifications from the server. */
    public function inbox(): Inbox
    {
        if ($this->inbox?->process !== getmypid()) {
            $this->inbox = new Inbox($this->redis, $this->auth);
        }
        return $this->inbox;
    }

    /** Host, process and label, shown to operators. */
    public function owner(string $label = 'php'): string
    {
        $host = substr(gethostname() ?: '', 0, 60);
        return pack('NC', getmypid(), strlen($host)) . $host . $label;
    }

    /** Seconds as whole microseconds. */
    public static function us(float $seconds): int
    {
        return (int) round($seconds * 1e6);
    }

    /** Monotonic time in seconds, to measure waits. */
    public static function now(): float
    {
        return hrtime(true) / 1e9;
    }

    /** Reads big-endian integers of the given sizes in bytes. The remaining bytes are the `rest`. */
    public static function unpack(string $packed, array $sizes): array
    {
        $fields = [];
        foreach ($sizes as $name => $size) {
            $fields[$name] = hexdec(bin2hex(substr($packed, 0, $size)));
            $packed = substr($packed, $size);
        }
        return $fields + ['rest' => $packed];
    }
}

/** A subscription of this process, on its own connection. */
final class Inbox
{
    public readonly string $id;
    public readonly int $process;
    /** @var resource|null */
    private $socket = null;

    public function __construct(private readonly Redis|RedisCluster $redis, private readonly mixed $auth)
    {
        $this->id = random_bytes(8);
        $this->process = getmypid();
        $this->connect();
    }

    /**
     * Sleeps until a message arrives, for at most $seconds. A message is only a hint, so its content is ignored; the state
     * is on the server.
     */
    public function wait(float $seconds): void
    {
        if ($this->socket === null) {
            $this->connect();
            return;
        }
        [$read, $none] = [[$this->socket], []];
        $heard = stream_select($read, $none, $none, (int) $seconds, (int) (fmod($seconds, 1) * 1e6));
        if ($heard && in_array(fread($this->socket, 65_536), ['', false], true)) {
            $this->socket = null;
        }
    }

    private function connect(): void
    {
        foreach ($this->addresses() as $address) {
            if ($socket = @stream_socket_client($address, $code, $why, 3)) {
                break;
            }
        }
        $socket ?: throw new RuntimeException("no connection for wake-ups: $why");
        if ($auth = $this->auth ?? ($this->redis instanceof Redis ? $this->redis->getAuth() : null)) {
            self::ask($socket, ['AUTH', ...(array) $auth], 1);
        }
        self::ask($socket, ['SUBSCRIBE', 'rg:in:' . bin2hex($this->id)], 6);
        $this->socket = $socket;
    }

    /** Addresses to subscribe at. In a Cluster any node works, because every node receives all messages. */
    private function addresses(): array
    {
        if ($this->redis instanceof RedisCluster) {
            return array_map(fn (array $node) => "tcp://$node[0]:$node[1]", $this->redis->_masters());
        }
        [$host, $port] = [$this->redis->getHost(), $this->redis->getPort()];
        return [match (true) {
            str_starts_with($host, '/') => "unix://$host",
            str_contains($host, '://') => "$host:$port",
            default => "tcp://$host:$port",
        }];
    }

    /** Sends a command, and reads the lines of its answer. */
    private static function ask($socket, array $words, int $lines): void
    {
        $request = '*' . count($words) . "\r\n";
        foreach ($words as $word) {
            $request .= '$' . strlen($word) . "\r\n$word\r\n";
        }
        fwrite($socket, $request);
        for ($line = 0; $line < $lines; $line++) {
            $said = fgets($socket);
            if ($said === false || $said[0] === '-') {
                throw new RuntimeException('no wake-ups: ' . trim($said ?: 'the connection was closed'));
            }
        }
    }
}
