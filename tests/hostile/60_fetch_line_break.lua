-- row: 60
-- where: fetch
-- expect: error
-- says: has a byte that must be written as %XX
return { a = fence.http('storage', '/v2\r\nHost: other') }
