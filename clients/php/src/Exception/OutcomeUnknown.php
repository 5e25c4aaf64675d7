<?php

declare(strict_types=1);

namespace Rushgate\Exception;

/** No answer arrived within the retry budget. The call may have taken effect. */
final class OutcomeUnknown extends Unavailable
{
}
