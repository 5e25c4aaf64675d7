<?php

declare(strict_types=1);

// Runs the suite on every store of the environment: `run.php BUILD-FOLDER [PHPUnit options]`.

$build = $argv[1];
$options = implode(' ', array_map('escapeshellarg', array_slice($argv, 2)));
$store = fn (string $name) => getenv("RUSHGATE_TEST_$name") ?: null;
$stores = array_filter([
    'redis' => $store('REDIS'),
    'redis-predis' => $store('REDIS'),
    'redis-stream' => $store('REDIS'),
    'cluster' => $store('CLUSTER'),
    'sentinel' => $store('SENTINEL'),
    'tls' => $store('TLS'),
    'tls-stream' => $store('TLS'),
    'http' => $store('HTTP'),
    'http-redis' => $store('HTTP_REDIS'),
]);
$only = getenv('RUSHGATE_TEST_ONLY');
if ($only) {
    $stores = array_intersect_key($stores, array_flip(explode(',', $only)));
}
if ($stores === []) {
    exit("No server: run clients/with-servers clients/php/test\n");
}
[$passed, $failed] = [0, 0];
foreach ($stores as $name => $url) {
    putenv("RUSHGATE_TEST_URL=$url");
    $driver = explode('-', $name)[1] ?? '';
    putenv('RUSHGATE_TEST_DRIVER=' . (in_array($driver, ['predis', 'stream'], true) ? $driver : 'auto'));
    $log = "$build/$name.xml";
    @unlink($log);
    echo "── $name\n";
    passthru(
        'phpunit --no-configuration --do-not-cache-result --colors=never --bootstrap ' . escapeshellarg(__DIR__ . '/bootstrap.php')
            . ' --log-junit ' . escapeshellarg($log) . " $options " . escapeshellarg(__DIR__),
    );
    $suite = is_file($log) ? simplexml_load_file($log)->testsuite : null;
    $failures = $suite === null ? 1 : (int) $suite['errors'] + (int) $suite['failures'];
    $passed += (int) ($suite['tests'] ?? 0) - ($suite === null ? 0 : $failures + (int) $suite['skipped']);
    $failed += $failures;
}
echo "$passed passed, $failed failed\n";
exit($failed === 0 ? 0 : 1);
