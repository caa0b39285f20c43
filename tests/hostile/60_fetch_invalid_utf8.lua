-- row: 60
-- where: fetch
-- expect: error
-- says: has the reserved character '
return { a = fence.http('storage', '/v2/\xff\xfe') }
