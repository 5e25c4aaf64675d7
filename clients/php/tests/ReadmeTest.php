<?php

declare(strict_types=1);

namespace Rushgate\Tests;

final class ReadmeTest extends TestCase
{
    public function testTheFirstExampleRuns(): void
    {
        preg_match('/```php\n(.+?)```/s', file_get_contents(__DIR__ . '/../README.md'), $example);
        $code = str_replace(
            ["require 'vendor/autoload.php';", "'redis://127.0.0.1:6379'", "'mail'", "'order:42'"],
            ['', 'self::url(), self::options()', var_export(self::name('mail'), true), var_export(self::name('order'), true)],
            $example[1],
        );
        $this->expectOutputString("ann\n");
        eval($code);
    }
}
