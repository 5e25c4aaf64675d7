-- Returns the version of the protocol and of the library.
--
-- {protocol, version, build}  the protocol's number, which increases with each incompatible change; the library's
--                             version; the hash of its content
--
-- flags: no-writes
return { PROTOCOL, VERSION, BUILD }
