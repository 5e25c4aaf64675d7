-- What the library is. A program that knows another protocol must not go on.
--
-- {protocol, version}  a number that grows when a call that was right becomes wrong, and the version as text
--
-- flags: no-writes
return { PROTOCOL, VERSION }
