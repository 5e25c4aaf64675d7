<?php

declare(strict_types=1);

namespace Rushgate\Exception;

/** The reservation already has another outcome. The details have its `state`. */
final class Decided extends Refused
{
}
