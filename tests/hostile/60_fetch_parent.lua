-- row: 60
-- where: fetch
-- expect: error
-- says: must not have '.' or '..' in it
return { a = fence.http('storage', '/v2/../secrets') }
