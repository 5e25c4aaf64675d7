-- Returns the version of the protocol and of the library. A program that was written for another protocol must stop.
--
-- {protocol, version}  the protocol's number, which increases with each incompatible change, and the library's version
--
-- flags: no-writes
return { PROTOCOL, VERSION }
