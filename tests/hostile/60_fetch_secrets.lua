-- row: 60
-- where: fetch
-- expect: error
-- says: argument 2 'secrets' is never read for a policy
return { a = fence.get('v1', 'secrets', 'shop', 'password') }
