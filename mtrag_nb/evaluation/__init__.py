"Numbers from records."
