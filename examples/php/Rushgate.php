<?php

declare(strict_types=1);

/**
 * Rushgate's functions on a Redis or Valkey server, called from PHP: what every class beside this one needs.
 *
 * The functions are installed by `rushgate functions install`; docs/protocol.md says what each is given and answers.
 */
final class Rushgate
{
    /** The protocol that this file was written for. */
    private const PROTOCOL = 10;
    /** A waiter that was handed a lock has so long to confirm, in µs. */
    public const CLAIM_WINDOW_US = 2_000_000;

    private const LOCK = ['s', 'q', 'w', 'x'];
    private const QUEUE = ['m', 'r', 't', 'n', 'l', 'x', 'xi', 'y', 'd0', 'd1', 'd2', 'd3', 'd4', 'd5', 'd6', 'd7', 'd8', 'd9', 'g', 'gh', 'gm'];
    private const SALE = ['c', 'f', 'w', 'b', 'h', 'd', 'e'];

    /** @var ?WeakMap<Redis|RedisCluster, int> the process that uses each connection */
    private static ?WeakMap $users = null;
    private ?Inbox $inbox = null;

    /** @param mixed $auth what `AUTH` is given before wake-ups: a `RedisCluster` does not tell, as a `Redis` does */
    public function __construct(private readonly Redis|RedisCluster $redis, private readonly mixed $auth = null)
    {
        // A status such as AGAIN is to be told from "true".
        $redis->setOption(Redis::OPT_REPLY_LITERAL, 1);
        [$protocol, $version] = $this->call('version', [], []);
        if ($protocol !== self::PROTOCOL) {
            throw new RuntimeException("Rushgate $version on the server speaks protocol $protocol, this file " . self::PROTOCOL);
        }
    }

    /** Calls a function. Its token or op keeps it from being carried out twice, however often it is sent. */
    public function call(string $function, array $keys, array $arguments, float $patience = 5): mixed
    {
        do {
            $words = ['FCALL', "rushgate_$function", count($keys), ...$keys, ...$arguments];
            $answer = $this->send($keys[0] ?? '', $words, $patience);
        } while ($answer === 'AGAIN');
        return $answer;
    }

    /**
     * Sends a command, and sends it again for so many seconds while the connection is lost. In a Cluster the key says
     * where to.
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
            // A refusal is a false or an exception, by its first word; a lost connection is an exception without one.
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
                // A raw command does not look for the node that has the key by now; others do, and are remembered.
                $where === [] || $this->redis->exists($key);
            } catch (RedisClusterException) {
            }
        }
    }

    /** After a fork: two processes cannot share a connection, so this one opens its own. The parent's stays open. */
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

    /** What a number stands for. One that is not known is of a later protocol, and nobody should guess at it. */
    public static function meaning(array $names, int $number): string
    {
        return $names[$number] ?? throw new RuntimeException(
            "the server answered $number, which protocol " . self::PROTOCOL . ' does not know',
        );
    }

    /** The keys of a lock. */
    public static function lockKeys(string $name): array
    {
        return self::under("rg:{l:$name}:", self::LOCK);
    }

    /** The keys of a queue. */
    public static function queueKeys(string $name): array
    {
        return self::under("rg:{q:$name}:", self::QUEUE);
    }

    /** The keys under which the server remembers what it answered this client. */
    public function answerKeys(string $queue): array
    {
        $client = bin2hex(self::client());
        return self::under("rg:{q:$queue}:", ["o:$client", "p:$client"]);
    }

    /** The key of a queue's ids that are unique for a period. */
    public static function uniqueKeys(string $queue): array
    {
        return self::under("rg:{q:$queue}:", ['u']);
    }

    /** The keys of a sale, which are where its orders' queue is, if it has one. */
    public static function saleKeys(string $id, ?string $orders): array
    {
        return self::under(($orders === null ? "rg:{s:$id}:" : "rg:{q:$orders}:") . "sale:$id:1:", self::SALE);
    }

    private static function under(string $beginning, array $endings): array
    {
        return array_map(fn (string $ending) => $beginning . $ending, $endings);
    }

    /**
     * Eight bytes that no other process has. They are the same for all requests that a worker of PHP serves: one client
     * each would leave its latest answers behind at every request.
     */
    private static function client(): string
    {
        return substr(hash('sha256', gethostname() . ':' . getmypid(), true), 0, 8);
    }

    /** A name for one acquisition of a lock. */
    public function token(): string
    {
        return self::client() . random_bytes(8);
    }

    /** A name for one call on a queue. */
    public function op(): string
    {
        return random_bytes(8);
    }

    /** Where the server wakes this process. */
    public function inbox(): Inbox
    {
        if ($this->inbox?->process !== getmypid()) {
            $this->inbox = new Inbox($this->redis, $this->auth);
        }
        return $this->inbox;
    }

    /** Who this is, for people who look. */
    public function owner(string $label = 'php'): string
    {
        $host = substr(gethostname() ?: '', 0, 60);
        return pack('NC', getmypid(), strlen($host)) . $host . $label;
    }

    /** Whole microseconds. */
    public static function us(float $seconds): int
    {
        return (int) round($seconds * 1e6);
    }

    /** Seconds on a clock that is never put back. It measures waiting and nothing else. */
    public static function now(): float
    {
        return hrtime(true) / 1e9;
    }

    /** Reads whole numbers of so many bytes each; what is behind them is the `rest`. */
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

/** A subscription of this process, on a connection of its own. */
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
     * Sleeps until a message has come, or that time is over. What it says is not read: it is a hint, and the state is
     * on the server.
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

    /** Where to subscribe; in a Cluster at any node, because each hears of everything. */
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

    /** Sends a command and reads the lines of its answer. */
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
