-- row: 60
-- where: fetch
-- expect: error
-- says: has its answer in got already
return { vol = fence.http('storage', '/v2') }
