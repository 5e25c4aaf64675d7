-- SipHash-2-4 with 128 bits of output (Aumasson and Bernstein), in halves of 32 bits: Lua counts in doubles.
local WORD = 4294967296

local function plus(a, b)
  local low = a[2] + b[2]
  return { (a[1] + b[1] + math.floor(low / WORD)) % WORD, low % WORD }
end

local function xor(a, b)
  return { bit.bxor(a[1], b[1]) % WORD, bit.bxor(a[2], b[2]) % WORD }
end

local function turned(a, by)
  local high, low = a[1], a[2]
  if by >= 32 then high, low, by = low, high, by - 32 end
  local up, down = 2 ^ by, 2 ^ (32 - by)
  return { high * up % WORD + math.floor(low / down), low * up % WORD + math.floor(high / down) }
end

local function rounds(v, n)
  for _ = 1, n do
    v[1] = plus(v[1], v[2])
    v[2] = xor(turned(v[2], 13), v[1])
    v[1] = turned(v[1], 32)
    v[3] = plus(v[3], v[4])
    v[4] = xor(turned(v[4], 16), v[3])
    v[1] = plus(v[1], v[4])
    v[4] = xor(turned(v[4], 21), v[1])
    v[3] = plus(v[3], v[2])
    v[2] = xor(turned(v[2], 17), v[3])
    v[3] = turned(v[3], 32)
  end
end

local function siphash(secret, text)
  local k0, k1 = {}, {}
  k0[2], k0[1], k1[2], k1[1] = struct.unpack('<I4I4I4I4', secret)
  local v = {
    xor(k0, { 0x736f6d65, 0x70736575 }), xor(xor(k1, { 0x646f7261, 0x6e646f6d }), { 0, 0xee }),
    xor(k0, { 0x6c796765, 0x6e657261 }), xor(k1, { 0x74656462, 0x79746573 }),
  }
  local padded = text .. string.rep('\0', 7 - #text % 8) .. string.char(#text % 256)
  for at = 1, #padded, 8 do
    local low, high = struct.unpack('<I4I4', padded, at)
    local word = { high, low }
    v[4] = xor(v[4], word)
    rounds(v, 2)
    v[1] = xor(v[1], word)
  end
  local function half(of, mark)
    v[of] = xor(v[of], { 0, mark })
    rounds(v, 4)
    local word = xor(xor(v[1], v[2]), xor(v[3], v[4]))
    return struct.pack('>I4I4', word[1], word[2])
  end
  local first = half(3, 0xee)
  return half(2, 0xdd) .. first
end
