-- The address pool, in one atomic call. lycosa/stages/politeness/address_pool.py has the theory, and memory_pool.py the same
-- rules in Python; a test gives both the same calls.
--
-- KEYS: the workers that are present, the state, the crawls, then the address of each request.
-- ARGV: server, deadline, crawl, shard, shards, delay, slots, slot time, settling time, "1" if new, "1" if leaving, time that
--       a worker counts as present, tolerated step back of the clock, time that a request may start late,
--       then for each request: T(ake) S(tart) or F(ree), the slot, and the age of a start or "1" for a request that was sent.
-- All times are microseconds of this server's clock. Numbers are written by text(), because Lua would round them.

local clock = redis.call('TIME')
local now = clock[1] * 1000000 + clock[2]
local function text(number) return string.format('%.0f', number) end

local server, deadline, crawl = ARGV[1], tonumber(ARGV[2]), ARGV[3]
local delay, slots, slot_time, settle = tonumber(ARGV[6]), tonumber(ARGV[7]), tonumber(ARGV[8]), tonumber(ARGV[9])
local late = tonumber(ARGV[14])
if now > deadline then return {text(now), 'late'} end

-- who is present, and since when all requests are known
local member = crawl .. '/' .. ARGV[4]
local state = redis.call('HMGET', KEYS[2], 'server', 'since', 'now')
local since = tonumber(state[2] or 0)
if state[1] ~= server or now + tonumber(ARGV[13]) < tonumber(state[3] or 0) then
  redis.call('DEL', KEYS[1], KEYS[3])
  since = now
end
local absent = redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', '(' .. text(now))
if absent > 0 or ARGV[10] == '1' then since = now end
redis.call('HSET', KEYS[2], 'server', server, 'since', text(since), 'now', text(now))
redis.call('ZADD', KEYS[1], text(now + tonumber(ARGV[12])), member)
redis.call('HSET', KEYS[3], crawl, ARGV[5] .. ' ' .. text(settle) .. ' ' .. text(now))
local expected, longest = 0, 0
local crawls = redis.call('HGETALL', KEYS[3])
for each = 1, #crawls, 2 do
  local shards, settling, heard = string.match(crawls[each + 1], '(%d+) (%d+) (%d+)')
  if now - tonumber(heard) > tonumber(settling) then
    redis.call('HDEL', KEYS[3], crawls[each])
  else
    expected = expected + tonumber(shards)
    longest = math.max(longest, tonumber(settling))
  end
end
local present = redis.call('ZCARD', KEYS[1])
local unsettled = since + longest - now
local is_shared = present >= expected and unsettled <= 0

-- Everything expires when it is of no use any more, so an end of all crawls leaves nothing behind.
local function keep(key, micros)
  local millis = math.ceil(micros / 1000) + 1000
  if redis.call('PTTL', key) < millis then redis.call('PEXPIRE', key, text(millis)) end
end
keep(KEYS[1], longest)
keep(KEYS[2], longest)
keep(KEYS[3], longest)

-- an address: s(tart), b(efore), g(ranted and not reported), and until when each #slot is in use at most
local function take(key, slot)
  local start, before, granted, open = nil, nil, nil, 0
  local fields = redis.call('HGETALL', key)
  for each = 1, #fields, 2 do
    local name, value = fields[each], fields[each + 1]
    if name == 's' then start = math.min(tonumber(value), now)
    elseif name == 'g' then granted = value
    elseif string.sub(name, 1, 1) == '#' then
      if tonumber(value) <= now then redis.call('HDEL', key, name) else open = open + 1 end
    end
  end
  if is_shared then
    local wait = 0
    if start then
      wait = math.max(start + delay - now, 0)
      if wait == 0 and granted then
        wait = math.max(math.min(start + delay + late - now, 20000), 0)
      end
    end
    if wait == 0 and open >= slots then wait = math.max(50000, math.min(delay, 1000000)) end
    if wait > 0 then return text(wait) end
  end
  if start then
    before = start
    if granted then before = math.min(start + late, now) end
    redis.call('HSET', key, 'b', text(before))
  else
    redis.call('HDEL', key, 'b')
  end
  redis.call('HSET', key, 's', text(now), 'g', slot, '#' .. slot, text(now + slot_time))
  return '0'
end

local function start(key, slot, age)
  local at = now - age
  local state = redis.call('HMGET', key, 's', 'g')
  if state[1] then at = math.max(tonumber(state[1]), at) end
  redis.call('HSET', key, 's', text(at))
  if state[2] == slot then redis.call('HDEL', key, 'g', 'b') end
end

local function free(key, slot, was_sent)
  redis.call('HDEL', key, '#' .. slot)
  if was_sent then return end
  local state = redis.call('HMGET', key, 'g', 'b')
  if state[1] ~= slot then return end
  redis.call('HDEL', key, 'g', 'b')
  if state[2] then redis.call('HSET', key, 's', state[2]) else redis.call('HDEL', key, 's') end
end

local answer = {text(now), is_shared and 'shared' or 'divided', text(present), text(expected), text(math.max(unsettled, 0))}
for each = 4, #KEYS do
  local at = 15 + (each - 4) * 3
  local kind, slot, value = ARGV[at], ARGV[at + 1], ARGV[at + 2]
  if kind == 'T' then
    answer[#answer + 1] = take(KEYS[each], slot)
  elseif kind == 'S' then
    start(KEYS[each], slot, tonumber(value))
  else
    free(KEYS[each], slot, value == '1')
  end
  if redis.call('EXISTS', KEYS[each]) == 1 then keep(KEYS[each], longest + late) end
end
if ARGV[11] == '1' then redis.call('ZREM', KEYS[1], member) end
return answer
