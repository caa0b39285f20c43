-- row: 60
-- where: fetch
-- expect: error
-- says: has a control character
return { a = fence.http('storage', '/v2', 'a\0b') }
