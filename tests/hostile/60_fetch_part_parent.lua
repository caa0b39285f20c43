-- row: 60
-- where: fetch
-- expect: error
-- says: cannot be a part of a path
return { a = fence.http('storage', '/v2', '..', 'secrets') }
