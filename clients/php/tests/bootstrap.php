<?php

declare(strict_types=1);

// The installed package, not the sources beside the tests.
require __DIR__ . '/../.build/project/vendor/autoload.php';
require 'Predis/Autoloader.php';
Predis\Autoloader::register();
foreach (['TestCase', 'Proxy', 'Servers'] as $class) {
    require __DIR__ . "/$class.php";
}
set_error_handler(function (int $level, string $what, string $file, int $line): bool {
    // Libraries of the system have deprecated code.
    $isOurs = str_contains($file, '/rushgate/') || str_starts_with($file, __DIR__);
    return error_reporting() & $level && $isOurs ? throw new ErrorException($what, 0, $level, $file, $line) : true;
});
