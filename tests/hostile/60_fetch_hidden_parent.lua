-- row: 60
-- where: fetch
-- expect: error
-- says: hides a byte that may not stand in a path
return { a = fence.http('storage', '/v2/%2e%2E/secrets') }
